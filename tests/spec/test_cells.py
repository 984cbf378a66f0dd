"""A class of a notebook or a script: found by other processes, identified by its source and what it uses, or refused."""

import hashlib
import linecache
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from recollect.models.spec import ModelSpec
from recollect.spec import SpecError
from recollect.spec.source import load, reference, source_digest
from recollect.tasks import as_task
from recollect.train.spec import RunSpec

IMPORTS = """
import math
import torch
import torch.nn.functional as F
import xml.etree.ElementTree
from functools import cache
from torch import cat as joined, nn
from typing import Literal
from recollect.tasks import Batch, Task
"""
MINE = """
class Mine(nn.Module):
    def __init__(self, width: int, *, heads: int = 1):
        super().__init__()
        self.out = nn.Linear(width, width)

    def forward(self, x):
        return scaled(self.out(x.cumsum(1)))
"""
SCALED = """
def scaled(x):
    return SCALE * x
"""
FIRST = """
class First(Task):
    items: int = 4
    side: Side = "left"

    @property
    def vocabulary(self):
        return SIZE

    @property
    def row_length(self):
        return self.items

    def sample(self, stream):
        tokens = stream.integers(self.items, 1, SIZE)
        last = torch.full_like(tokens[:, :1], self.items - 1)
        return Batch(tokens, last, tokens[:, :1], query=last, source=torch.zeros_like(last))
"""


class Notebook:
    """A notebook as classes see it: cells that are compiled under names of their own, and kept where tracebacks find them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        main = ModuleType("__main__")
        self.names = vars(main)
        self.names["In"] = [""]
        monkeypatch.setitem(sys.modules, "__main__", main)

    def run(self, *cells: str) -> None:
        for text in cells:
            name = f"ipykernel_1/{hashlib.sha256(text.encode()).hexdigest()[:10]}.py"
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
            self.names["In"].append(text)
            exec(compile(text, name, "exec"), self.names)


@pytest.fixture
def notebook(tmp_path, monkeypatch) -> Notebook:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(linecache, "cache", dict(linecache.cache))
    return Notebook(monkeypatch)


def run_of(mixer, task="mqar") -> RunSpec:
    return RunSpec.model_validate({"task": task, "model": {"mixer": mixer, "width": 8}, "train": {"steps": 1}})


def test_a_class_of_a_cell_is_written_once_and_found_by_its_name(notebook):
    notebook.run(IMPORTS, "SCALE = 2.0", SCALED, MINE)
    name = reference(notebook.names["Mine"])
    path, _, cls = name.partition(":")
    assert (Path(path).parent.as_posix(), cls) == ("results/cells", "Mine")
    text = Path(path).read_text()
    assert "SCALE = 2.0\n" in text
    assert "Task" not in text, "what it does not use is not in it"
    written = Path(path).stat()
    assert reference(notebook.names["Mine"]) == name
    assert Path(path).stat() == written
    assert [one.name for one in Path("results/cells").iterdir()] == [Path(path).name], "no drafts are left"
    mixer = load(name)(4)
    x = torch.ones(1, 3, 4)
    torch.testing.assert_close(mixer(x), 2 * mixer.out(x.cumsum(1)))
    assert source_digest(notebook.names["Mine"]) == source_digest(load(name))


def test_another_process_has_the_same_run(notebook):
    notebook.run(IMPORTS, "SCALE = 2.0", SCALED, MINE)
    run = run_of({"kind": notebook.names["Mine"], "heads": 2})
    assert run.model.mixer.options == {"heads": 2}
    code = (
        "from recollect.train.spec import RunSpec; import sys; print(RunSpec.model_validate_json(sys.stdin.read()).id)"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, input=run.model_dump_json(), capture_output=True, text=True)
    assert done.stdout.strip() == run.id, done.stderr


def test_the_name_depends_on_the_class_and_what_it_uses_alone(notebook, monkeypatch):
    notebook.run(IMPORTS, "SCALE = 2.0", SCALED, MINE)
    name = reference(notebook.names["Mine"])
    later = Notebook(monkeypatch)
    later.run("UNUSED = object()\nimport numpy as np", IMPORTS, f"SCALE = 2.0{SCALED}", f"x = 3\n{MINE}")
    assert reference(later.names["Mine"]) == name
    later.run("SCALE = 3.0")
    assert reference(later.names["Mine"]) != name
    later.run("SCALE = 2.0")
    assert reference(later.names["Mine"]) == name
    later.run(SCALED.replace("SCALE *", "SCALE +"))
    assert reference(later.names["Mine"]) != name
    later.run(SCALED, MINE.replace("cumsum", "cumprod"))
    assert reference(later.names["Mine"]) != name


USED = {
    "a constant": ("VALUE = (1, -2.5, 'x', None, True, [b'y'], {'k': (3,)})", "VALUE"),
    "what is not finite": ("VALUE = [float('inf'), -math.inf]", "VALUE"),
    "a type of numbers": ("VALUE = torch.bfloat16", "VALUE"),
    "a module": ("", "math.pi"),
    "a module under another name": ("", "F.relu(torch.ones(1)).item()"),
    "a module inside a package": ("", "xml.etree.ElementTree.fromstring('<a/>').tag"),
    "a function of a module that has no home": ("", "joined([torch.ones(2)]).sum().item()"),
    "a function": ("def value():\n    return other()\ndef other():\n    return 5", "value()"),
    "a function under a decorator": ("@cache\ndef value():\n    return 5", "value()"),
    "a lambda": ("value = lambda: 5", "value()"),
    "another name of a function": ("def value():\n    return 5\nsame = value", "same()"),
    "a class and its base": ("class Base:\n    x = 5\nclass Derived(Base): ...", "Derived.x"),
    "functions that call each other": (
        "def value(n=4):\n    return n and other(n - 1)\ndef other(n):\n    return n and value(n - 1)", "value()",
    ),
    "a class that its base uses": (
        "class Base:\n    def make(self):\n        return Derived()\nclass Derived(Base):\n    x = 5", "Base().make().x",
    ),
    "what a class's body calls": (
        "def zeta():\n    return alpha()\ndef alpha():\n    return 5\nclass Table:\n    x = zeta()", "Table.x",
    ),
    "what is under a condition": ("if True:\n    def value():\n        return 5", "value()"),
}  # fmt: skip


@pytest.mark.parametrize("case", USED)
def test_what_a_class_uses_comes_along(notebook, case):
    cell, expression = USED[case]
    notebook.run(IMPORTS, cell, f"class Uses:\n    def value(self):\n        return {expression}\n")
    expected = notebook.names["Uses"]().value()
    name = reference(notebook.names["Uses"])
    notebook.names.clear()
    assert repr(load(name)().value()) == repr(expected)
    if "xml" in expression:  # this process has imported it already
        assert "import xml.etree.ElementTree\n" in Path(name.partition(":")[0]).read_text()


def test_annotations_that_are_not_evaluated_stay_so(notebook):
    flags = "from __future__ import annotations\n"
    notebook.run(flags + IMPORTS, f"{flags}class Uses:\n    def value(self) -> math.no_such_type: ...\n")
    assert load(reference(notebook.names["Uses"]))


def test_a_class_without_functions_is_the_one_that_was_run_last(notebook):
    notebook.run(IMPORTS, "SCALE = 2.0", SCALED, MINE)
    for wanted, positions in ((True, "learned"), (False, "none"), (True, "learned")):
        notebook.run(f"class Plain(Mine):\n    wants_positions = {wanted}\n")
        assert ModelSpec(mixer=notebook.names["Plain"]).positions == positions


def test_a_task_of_a_cell_is_named_when_it_is_made(notebook):
    notebook.run(IMPORTS, "SIZE = 16\nSide = Literal['left', 'right']", FIRST, "task = First(items=6)")
    task, cls = notebook.names["task"], notebook.names["First"]
    assert task.kind == reference(cls)
    run = run_of("attention", task)
    notebook.run("SIZE = 32")
    assert run.task.vocabulary == 16, "the run is of the task as it was written"
    assert RunSpec.model_validate_json(run.model_dump_json()).id == run.id
    assert as_task(task).canonical() == {"kind": task.kind, "items": 6, "source": task.kind[-25:-9]}
    assert as_task(cls).vocabulary == 32
    assert as_task({"kind": cls, "side": "right"}).side == "right"  # pyright: ignore


REFUSED = {
    "a tensor": (
        "VALUE = torch.ones(2)",
        r"Uses: it uses 'VALUE', an object of type Tensor, .*make that inside the class, or",
    ),
    "a file": (
        "import os\nVALUE = open(os.devnull)\nVALUE.close()",
        r"it uses 'VALUE', an object of type TextIOWrapper",
    ),
    "a list of objects": ("VALUE = [object()]", r"it uses 'VALUE', an object of type list"),
    "an object of an own class": ("class Own: ...\nVALUE = Own()", r"it uses 'VALUE', an object of type Own"),
    "nothing": ("", r"it uses 'VALUE', which is not defined"),
    "a function's function": (
        "def make(n):\n    def inner():\n        return n\n    return inner\nVALUE = make(1)",
        r"it uses 'VALUE', which is defined inside a function",
    ),
    "a lambda in a call": ("VALUE = max([lambda: 1], key=id)", r"the source of 'VALUE' is not kept"),
    "a module of this folder": (
        "import only_here as VALUE",
        r"finds the module only_here \(in .*only_here.py\): install that",
    ),
    "a function of this folder": (
        "from only_here import value as VALUE",
        r"it uses 'VALUE', and only this process finds",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_come_along_is_refused_by_name_with_the_way_out(notebook, write, monkeypatch, tmp_path, case):
    write(only_here="def value(): ...")
    monkeypatch.syspath_prepend(tmp_path)
    cell, message = REFUSED[case]
    notebook.run(IMPORTS, cell, "class Uses(nn.Module):\n    def value(self):\n        return VALUE\n")
    with pytest.raises(SpecError, match=message) as caught:
        reference(notebook.names["Uses"])
    assert "name it as file.py:Uses" in str(caught.value)
    assert not Path("results").exists()
    sys.modules.pop("only_here", None)


def test_a_class_without_source_is_refused_where_it_is_needed(notebook):
    exec(compile(IMPORTS + "\nSIZE = 16\nSide = str\n" + FIRST, "<stdin>", "exec"), notebook.names)
    task = notebook.names["First"]()
    assert task.batch(0, "train", 2).tokens.shape == (2, 4), "it can be looked at"
    with pytest.raises(ValueError, match=r"First: the source of 'First' is not kept, as at a plain Python prompt"):
        run_of("attention", task)


def test_a_class_inside_a_function_is_refused(notebook):
    notebook.run(IMPORTS, "def make(n):\n    class Inner(nn.Module):\n        x = n\n    return Inner\nInner = make(1)")
    with pytest.raises(ValueError, match=r"Inner is defined inside a function, .* whose variables it may use"):
        ModelSpec(mixer=notebook.names["Inner"])


def test_a_method_put_there_later_is_refused(notebook):
    notebook.run(IMPORTS, "SCALE = 2.0", SCALED, MINE, "def forward(self, x):\n    return x\nMine.forward = forward")
    with pytest.raises(SpecError, match=r"Mine\.forward was put there after the class was defined"):
        reference(notebook.names["Mine"])


def test_an_edited_file_of_a_cell_is_refused(notebook):
    notebook.run(IMPORTS, "SCALE = 2.0", SCALED, MINE)
    path = Path(reference(notebook.names["Mine"]).partition(":")[0])
    path.write_text(path.read_text() + "# edited\n")
    with pytest.raises(SpecError, match=r"Mine-.*\.py has been edited since it was written for Mine: delete it"):
        reference(notebook.names["Mine"])


def test_a_function_has_a_name_as_a_class_has(notebook):
    notebook.run(IMPORTS, "SCALE = 2.0", SCALED)
    assert load(reference(notebook.names["scaled"]))(3) == 6


def test_a_class_redefined_since_is_the_one_that_is_meant(notebook):
    notebook.run(IMPORTS, "SCALE = 2.0", SCALED, MINE)
    old = notebook.names["Mine"]
    name = reference(old)
    notebook.run(MINE.replace("cumsum", "cumprod"))
    assert reference(old) == name != reference(notebook.names["Mine"])


SCRIPT = f"""{IMPORTS}
from recollect.train.loop import train
from recollect.train.spec import RunSpec
SIZE, SCALE = 16, 2.0
Side = Literal["left", "right"]
{SCALED}
{MINE}
{FIRST}
if __name__ == "__main__":
    train_spec = {{"steps": 2, "batch": 4, "eval_rows": 4, "test_rows": 4}}
    run = RunSpec.model_validate({{"task": First(), "model": {{"mixer": Mine, "width": 8}}, "train": train_spec}})
    print(run.id, [type(event).__name__ for event in train([run])][-1])
"""


def test_a_script_trains_a_class_of_its_own(tmp_path):
    ids = []
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text(SCRIPT if name == "one.py" else f"# moved\n{SCRIPT}")
        done = subprocess.run([sys.executable, name], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        ids.append(done.stdout.split())
    assert ids[0] == ids[1]
    assert ids[0][1] == "Ended"
