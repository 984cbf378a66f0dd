"""How a task is named, found and refused."""

import importlib.metadata

import pytest

from recollect.spec import Spec
from recollect.spec.registry import source_digest
from recollect.tasks import MQAR, TASKS, AnyTask, Mixture, NGram, Task, as_task, task_class

OWN = """
import torch
from recollect.tasks import Batch, Task

class Parrot(Task):
    length: int = 4

    @property
    def vocabulary(self):
        return 8

    @property
    def row_length(self):
        return self.length

    def sample(self, stream):
        tokens = stream.integers(self.length, 1, 8)
        last = torch.full_like(tokens[:, :1], self.length - 1)
        return Batch(tokens, last, tokens[:, -1:], query=last, source=last)

class Named(Task):
    kind: str = "named"

not_a_task = 3
"""


class Holder(Spec):
    """A specification with a task in it."""

    task: AnyTask = MQAR()


@pytest.fixture
def own(tmp_path) -> str:
    path = tmp_path / "parrot.py"
    path.write_text(OWN)
    return str(path)


@pytest.mark.parametrize("kind", sorted(TASKS))
def test_a_kind_is_its_tasks_name(kind):
    assert task_class(kind).model_fields["kind"].default == kind


def test_a_task_is_given_as_a_task_a_kind_or_a_mapping():
    task = MQAR(length=128)
    assert Holder(task=task).task is task
    assert Holder.model_validate({"task": "ngram"}).task == NGram()
    assert Holder.model_validate({"task": {"kind": "mqar", "length": 128}}).task == task


def test_a_dump_keeps_the_kind_and_the_fields():
    assert Holder.model_validate({"task": {"kind": "ngram", "n": 3}}).canonical() == {"task": {"kind": "ngram", "n": 3}}
    assert Holder(task=MQAR()).canonical() == {}  # the default, so left out as a whole
    assert Holder(task=NGram()).canonical() == {"task": {"kind": "ngram"}}
    assert Holder(task=NGram(n=3)).model_dump()["task"]["n"] == 3
    mixture = Mixture(parts=(MQAR(), MQAR(length=128)))
    assert mixture.canonical() == {"kind": "mixture", "parts": [{"kind": "mqar"}, {"kind": "mqar", "length": 128}]}


def test_your_own_task_from_a_file(own):
    kind = f"{own}:Parrot"
    task = as_task({"kind": kind, "length": 6})
    assert task.batch(0, "train", 3).tokens.shape == (3, 6)
    assert task.canonical() == {"kind": kind, "length": 6, "source": source_digest(type(task))}
    assert type(as_task(kind)) is type(task)  # the file is imported once
    assert type(task)().kind == kind  # made in Python it is found by the same name
    assert Holder.model_validate({"task": task.canonical()}).task == task


def test_your_own_task_from_a_module(own, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(tmp_path)
    task = as_task("parrot:Parrot")
    assert task.canonical() == {"kind": "parrot:Parrot", "source": source_digest(type(task))}


def test_your_own_task_from_an_installed_package(own, monkeypatch):
    class Entry:
        name = "parrot"

        @staticmethod
        def load():
            return task_class(f"{own}:Parrot")

    monkeypatch.setattr("recollect.spec.registry.entry_points", lambda group: {"recollect.tasks": [Entry]}[group])
    assert as_task("parrot").canonical() == {"kind": "parrot", "source": source_digest(type(as_task("parrot")))}
    with pytest.raises(ValueError, match="did you mean 'parrot'"):
        task_class("parot")


def test_entry_points_are_asked_by_group():
    assert list(importlib.metadata.entry_points(group="recollect.tasks")) == []


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("mqra", "unknown task 'mqra': did you mean 'mqar'"),
        ({"kind": "n-gram"}, "did you mean 'ngram'"),
        ({"length": 64}, "mapping with a `kind`, got .*choose from: ar,"),
        (7, "mapping with a `kind`, got 7"),
        ({"kind": "mqar", "lenght": 64}, "unknown key 'lenght': did you mean 'length'"),
        ("no_such_module:Name", "No module named 'no_such_module'"),
        ("nowhere/file.py:Name", r"no file .*nowhere/file\.py"),
        ("recollect.tasks:Batch", "not a class derived from recollect.tasks.Task"),
        ("recollect.tasks:Absent", "has no 'Absent'"),
        ("recollect.tasks:MQAR", "must leave out `kind`"),
    ],
)
def test_what_is_no_task_is_refused(value, message):
    with pytest.raises(ValueError, match=message):
        Holder.model_validate({"task": value})


def test_a_file_without_that_task_is_refused(own):
    with pytest.raises(ValueError, match="is 3, not a class derived from"):
        task_class(f"{own}:not_a_task")


def test_a_task_must_be_complete(own):
    task = as_task(f"{own}:Named")
    with pytest.raises(TypeError, match="Named must define sample"):
        task.batch(0, "train", 1)


def test_a_base_task_says_what_is_missing():
    with pytest.raises(TypeError, match="Task must define vocabulary"):
        _ = Task().vocabulary
    with pytest.raises(TypeError, match="Task must define row_length"):
        _ = Task().row_length


@pytest.mark.parametrize(
    ("example", "message"),
    [
        ({"kind": "mqar", "length": 63}, "length 63 is odd"),
        ({"kind": "mqar", "length": 64, "pairs": 17}, r"pairs 17 do not fit length 64: 4 x pairs = 68 .*at most 16"),
        ({"kind": "mqar", "length": 64, "vocab": 64}, "vocab 64 must be even and greater than length 64"),
        ({"kind": "mqar", "power_a": 0}, "greater than 0"),
        ({"kind": "ar", "pairs": 25}, "pairs 25 exceed the 24 keys that vocab 50 has"),
        ({"kind": "ar", "vocab": 51}, "multiple of 2"),
        ({"kind": "copy", "min_length": 30}, "min_length 30 must be at most length 20"),
        ({"kind": "copy", "length": 200, "packed": True}, r"length 200 does not fit context 220.*403 tokens"),
        ({"kind": "ngram", "length": 40}, "min_length 50 must be at least n .* 5 and at most length 40"),
        ({"kind": "ngram", "n": 1}, r"n = 1 occurs 3\.3 times more by chance in length 100"),
        ({"kind": "ngram", "variant": "jelassi", "symbols": 30}, "symbols 30 in the variant jelassi"),
        ({"kind": "duplicates", "segments": 25}, r"length 100 / segments 25 = 4 tokens cannot hold n \+ k = 5"),
        ({"kind": "duplicates", "k": 1, "segments": 10}, r"symbols \*\* k = 30 different answers are too few"),
        ({"kind": "duplicates", "n": 1, "length": 200}, "occurs .* times more by chance in length 200"),
        ({"kind": "position", "symbols": 30}, "symbols 30 are too few for a permutation of length 200"),
        ({"kind": "selective_copy", "length": 8}, "items 16 do not fit length 8"),
        ({"kind": "noisy", "length": 20}, r"pairs 8 do not fit length 20: 3 x pairs = 24 .*at most 6"),
        ({"kind": "noisy", "vocab": 16}, "pairs 8 exceed the 7 keys that vocab 16 has"),
        ({"kind": "fuzzy", "vocab": 16}, "pairs 8 exceed the 7 one-token keys that vocab 16 has"),
        ({"kind": "fuzzy", "vocab": 8192}, "key_length 3 with 4095 key tokens .* more than 2.30 keys"),
        ({"kind": "compositional", "pairs": 17}, r"pairs 17 exceed parts 4 \*\* 2 = 16"),
        ({"kind": "compositional", "vocab": 16}, "vocab 16 has 3 firsts and 8 values, too few for parts 4"),
        ({"kind": "updating", "pairs": 16}, r"pairs 16 and updates 4 do not fit length 64: .* = 72"),
        ({"kind": "updating", "length": 63}, "updating: length 63 is odd"),
        ({"kind": "mixture", "parts": []}, "at least 1 item"),
        ({"kind": "mixture", "parts": ["mqar", "ar"]}, "same vocabulary, got 8192, 50"),
        ({"kind": "mixture", "parts": ["duplicates"]}, "part 0 is 'duplicates', which cannot be a part"),
        ({"kind": "mixture", "parts": ["nagram"]}, "did you mean 'ngram'"),
    ],
)
def test_impossible_specifications_are_refused_with_their_numbers(example, message):
    with pytest.raises(ValueError, match=message):
        as_task(example)
