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
        name, module, value = "parrot", "own", "own:Parrot"

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
        (
            {"kind": "ngram", "variant": "jelassi", "min_length": 7},
            r"7 must be at least n \+ k \+ 3 in .* = 8 and at most",
        ),
        (
            {"kind": "ngram", "variant": "jelassi", "n": 1, "length": 400},
            r"in 7\.7e-05 of all rows .* length 400 has a unique n-gram",
        ),
        ({"kind": "ngram", "packed": True}, "packed is for the variant jelassi"),
        (
            {"kind": "ngram", "variant": "jelassi", "packed": True, "length": 213},
            "length 213 does not fit context 220: an example has 221 tokens",
        ),
        ({"kind": "duplicates", "segments": 25}, r"length 100 / segments 25 = 4 tokens cannot hold n \+ k = 5"),
        ({"kind": "duplicates", "k": 1, "segments": 10}, r"symbols \*\* k = 30 different answers are too few"),
        ({"kind": "duplicates", "n": 1, "length": 200}, "occurs .* times more by chance in length 200"),
        (
            {"kind": "duplicates", "segments": 20, "variant": "released"},
            r"= 5 tokens cannot hold n \+ k \+ 1 in the variant released = 6 tokens",
        ),
        (
            {"kind": "duplicates", "n": 3, "symbols": 2, "k": 4, "variant": "released"},
            "n = 3 different symbols, but there are only 2",
        ),
        ({"kind": "position", "symbols": 30}, "symbols 30 are too few for a permutation of length 200"),
        ({"kind": "selective_copy", "length": 8}, "items 16 do not fit length 8"),
        ({"kind": "noisy", "length": 20}, r"pairs 8 do not fit length 20: 3 x pairs = 24 .*at most 6"),
        ({"kind": "noisy", "vocab": 16}, "pairs 8 exceed the 7 keys that vocab 16 has"),
        ({"kind": "fuzzy", "vocab": 16}, "pairs 8 exceed the 7 one-token keys that vocab 16 has"),
        ({"kind": "fuzzy", "vocab": 8192}, "key_length 3 with 4095 key tokens .* more than 2.30 keys"),
        ({"kind": "compositional", "pairs": 17}, r"pairs 17 with parts 4 must be from 2 x parts = 8, .* \*\* 2 = 16"),
        ({"kind": "compositional", "pairs": 7}, "pairs 7 with parts 4 must be from 2 x parts = 8"),
        ({"kind": "compositional", "pairs": 5, "parts": 2}, r"from 2 x parts = 4, .* to parts \*\* 2 = 4"),
        ({"kind": "compositional", "vocab": 16}, "vocab 16 has 3 firsts and 8 values, too few for parts 4"),
        ({"kind": "updating", "pairs": 16}, r"pairs 16 and updates 4 do not fit length 64: .* = 72"),
        ({"kind": "updating", "length": 63}, "updating: length 63 is odd"),
        ({"kind": "updating", "updates": 5, "variant": "zoology"}, "updates 5 exceed pairs 4 in the variant zoology"),
        ({"kind": "updating", "roles": "shared", "variant": "zoology"}, "roles 'shared' in the variant zoology"),
        ({"kind": "mixture", "parts": []}, "at least 1 item"),
        ({"kind": "mixture"}, r"parts must be a list of tasks, such as \[mqar, {kind: mqar, length: 128"),
        ({"kind": "mixture", "parts": ["mqar", "mqar"], "weights": [1, 1, 2]}, "3 weights for 2 parts"),
        (
            {"kind": "mixture", "parts": ["mqar", "mqar"], "weights": 5},
            "weights must be a list, not 5; in a study give",
        ),
        ({"kind": "mixture", "parts": ["mqar", "mqar"], "weights": [1, 0]}, "greater than or equal to 1"),
        ({"kind": "mixture", "parts": ["mqar", "mqar"], "weights": [1, 1001]}, "less than or equal to 1000"),
        (
            {"kind": "mixture", "parts": [{"kind": "mqar", "weight": 2}], "weights": [1]},
            r"weights \[1\] beside parts that have a weight",
        ),
        ({"kind": "mixture", "parts": ["mqar", "ar"]}, "same vocabulary, got 8192, 50"),
        ({"kind": "mixture", "parts": ["duplicates"]}, "part 0 is 'duplicates', which cannot be a part"),
        ({"kind": "mixture", "parts": ["nagram"]}, "did you mean 'ngram'"),
    ],
)
def test_impossible_specifications_are_refused_with_their_numbers(example, message):
    with pytest.raises(ValueError, match=message):
        as_task(example)


@pytest.mark.parametrize(
    "example",
    [
        {"kind": "mqar", "vocab": 2**32 + 2},
        {"kind": "mqar", "length": 2**20 + 2, "vocab": 2**20},
        {"kind": "mqar", "power_a": 1e308},
        {"kind": "ar", "vocab": 2**21},
        {"kind": "copy", "length": 2**21},
        {"kind": "copy", "packed": True, "context": 2**21},
        {"kind": "ngram", "symbols": 2**21},
        {"kind": "ngram", "length": 2**21},
        {"kind": "duplicates", "symbols": 2**21},
        {"kind": "duplicates", "length": 2**21},
        {"kind": "position", "length": 2**21},
        {"kind": "position", "symbols": 2**21},
        {"kind": "induction", "symbols": 10**11, "length": 4},
        {"kind": "induction", "length": 2**21},
        {"kind": "selective_copy", "symbols": 2**21},
        {"kind": "selective_copy", "length": 2**21},
        {"kind": "noisy", "vocab": 2**21},
        {"kind": "noisy", "noises": 2**21},
        {"kind": "noisy", "length": 2**21},
        {"kind": "fuzzy", "vocab": 2**21},
        {"kind": "fuzzy", "value_length": 2**18},
        {"kind": "compositional", "vocab": 2**21},
        {"kind": "updating", "vocab": 2**21},
    ],
    ids=str,
)
def test_what_is_too_much_is_refused_with_the_number_allowed(example):
    with pytest.raises(ValueError, match=r"less than or equal to 10(48576)?|more than 1048576"):
        as_task(example)


def test_a_part_may_come_with_its_weight():
    parts = [{"kind": "mqar", "weight": 10}, {"kind": "mqar", "length": 128, "weight": 2}, "mqar"]
    mixture = Mixture.model_validate({"parts": parts})
    assert mixture == Mixture(parts=(MQAR(), MQAR(length=128), MQAR()), weights=(10, 2, 1))
    assert as_task(mixture.canonical()) == mixture


def test_equal_weights_are_none():
    parts = (MQAR(), MQAR(length=128))
    assert Mixture(parts=parts, weights=(4, 4)) == Mixture(parts=parts)
    assert Mixture(parts=parts, weights=(4, 2)) == Mixture(parts=parts, weights=(2, 1))


def test_every_task_has_a_version(kinds):
    assert {
        type(as_task({"kind": kind, "parts": ["mqar"]} if kind == "mixture" else kind)).version for kind in kinds
    } == {1}
