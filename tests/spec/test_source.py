"""What a run's identity covers of the user's code, and which files travel with a run."""

import hashlib
import sys
from pathlib import Path

import pytest
from torch import nn

from recollect.mixers import MIXERS
from recollect.mixers.attention import Attention
from recollect.models.spec import ModelSpec
from recollect.spec import SpecError
from recollect.spec.source import files_at, load, own_files, portable, reference, source_digest
from recollect.study.executors import ray
from recollect.study.executors.base import sent
from recollect.study.executors.order import Order, files_of
from recollect.study.executors.reports import Broken
from recollect.tasks import MQAR, as_task
from recollect.train.spec import RunSpec

MIXER = """
from torch import nn
from helper import scale
class Own(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.out = nn.Linear(width, width)
    def forward(self, x):
        return scale * self.out(x.cumsum(1))
"""


def run_of(mixer) -> RunSpec:
    task = {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32}
    train = {"steps": 2, "batch": 4, "eval_rows": 4, "test_rows": 4}
    return RunSpec.model_validate({"task": task, "model": {"mixer": mixer, "width": 8, "layers": 1}, "train": train})


def test_a_file_that_imports_nothing_beside_it_has_the_hash_of_its_bytes(write, tmp_path):
    write(mine="import json, torch.nn\nclass Mine: ...\n", helper="")
    expected = hashlib.sha256((tmp_path / "mine.py").read_bytes()).hexdigest()[:16]
    assert source_digest(load(f"{tmp_path}/mine.py:Mine")) == expected


@pytest.mark.parametrize(
    ("statement", "edited"),
    [
        ("import helper", "helper"),
        ("def f():\n    import helper", "helper"),
        ("if False:\n    from helper import x", "helper"),
        ("from pack import sub", "pack__sub"),
        ("from pack import sub", "pack__"),
        ("import pack.sub", "pack__"),
        ("from pack import *", "pack__sub"),
        ("import chain", "helper"),
    ],
)
def test_editing_what_is_imported_from_beside_makes_new_runs(write, tmp_path, statement, edited):
    write(helper="x = 1", other="x = 1", pack__="", pack__sub="x = 1", chain="def f():\n    from helper import x\n")
    write(mine=f"{statement}\nclass Mine: ...\n")
    name = f"{tmp_path}/mine.py:Mine"
    before = source_digest(load(name))
    write(other="x = 2")
    assert source_digest(load(name)) == before, "what is not imported is no part of it"
    write(**{edited: "x = 2"})
    assert source_digest(load(name)) != before


def test_a_run_is_another_one_when_a_sibling_is_edited(write, tmp_path):
    write(own=MIXER, helper="scale = 1.0")
    before = run_of(f"{tmp_path}/own.py:Own")
    assert run_of(f"{tmp_path}/own.py:Own").id == before.id
    write(helper="scale = 2.0")
    assert run_of(f"{tmp_path}/own.py:Own").id != before.id


@pytest.mark.parametrize(
    ("statement", "covered"),
    [
        ("from .ops import x", True),
        ("from . import ops", True),
        ("from own_package.inner.ops import x", True),
        ("import own_package.inner.ops", True),
        ("import ops", False),
        ("from ..outer import x", False),
    ],
)
def test_of_a_module_its_own_folder_counts(write, tmp_path, monkeypatch, statement, covered):
    files = {"own_package__inner__ops": "x = 1", "own_package__outer": "x = 1", "ops": "x = 1"}
    write(
        own_package__="", own_package__inner__="", own_package__inner__mine=f"{statement}\nclass Mine: ...\n", **files
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = load("own_package.inner.mine:Mine")
    try:
        before = source_digest(found)
        alone = hashlib.sha256((tmp_path / "own_package/inner/mine.py").read_bytes()).hexdigest()[:16]
        assert (before == alone) is not covered
        write(own_package__inner__ops="x = 2", own_package__outer="x = 2", ops="x = 2")
        assert (source_digest(found) != before) is covered
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] in ("own_package", "ops")]:
            del sys.modules[name]


def test_what_a_package_defines_itself_counts_where_it_is_imported(write, tmp_path, monkeypatch):
    write(own_root__="scale = 1", own_root__mine="from . import scale\nclass Mine: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = load("own_root.mine:Mine")
    before = source_digest(found)
    write(own_root__="scale = 2")
    assert source_digest(found) != before


def test_what_is_installed_is_not_read_whole():
    """torch lies beside every installed module."""
    import typing_extensions

    path = Path(typing_extensions.__file__)
    assert source_digest(typing_extensions.Sentinel) == hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def test_a_class_is_named_by_what_finds_it(write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(folder="sub", own=MIXER, helper="scale = 1.0")
    own = load("sub/own.py:Own")
    assert reference(own) == "sub/own.py:Own"
    assert load(reference(own)) is own
    assert reference(nn.Linear) == "torch.nn.modules.linear:Linear"

    class Local(nn.Module): ...

    with pytest.raises(SpecError, match=r"Local is defined inside a function, .*define it at the top level of a file"):
        reference(Local)


def test_a_class_may_stand_where_a_name_may(write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(own=MIXER, helper="scale = 1.0")
    own = load("own.py:Own")
    assert ModelSpec(mixer=own) == ModelSpec(mixer="own.py:Own") == ModelSpec(mixer={"kind": own})
    assert ModelSpec(mixer={"kind": Attention, "heads": 4}) == ModelSpec(mixer={"kind": "attention", "heads": 4})
    assert MIXERS.name(Attention) == "attention"
    assert as_task(MQAR) == as_task({"kind": MQAR}) == MQAR()
    with pytest.raises(ValueError, match=r"not a class derived from torch.nn.Module"):
        ModelSpec(mixer=dict)  # pyright: ignore
    with pytest.raises(ValueError, match=r"not a class derived from recollect.tasks.Task"):
        as_task(Attention)


def test_a_class_of_an_installed_package_has_the_name_it_is_offered_by(monkeypatch):
    class Entry:
        name, value = "linear", "torch.nn.modules.linear:Linear"

    monkeypatch.setattr("recollect.spec.registry.entry_points", lambda group: [Entry])
    assert MIXERS.name(nn.Linear) == "linear"


def test_what_is_installed_is_read_once_and_again_when_a_name_is_not_known(monkeypatch):
    class Entry:
        name, value, module = "linear", "torch.nn.modules.linear:Linear", "torch.nn.modules.linear"
        load = staticmethod(lambda: nn.Linear)

    offered, scans = [], []
    monkeypatch.setattr("recollect.spec.registry.entry_points", lambda group: scans.append(group) or list(offered))
    assert "linear" not in MIXERS
    assert "bilinear" not in MIXERS
    assert len(scans) == 1
    offered.append(Entry)  # installed in the meantime, as from a notebook
    assert MIXERS.find("linear") is nn.Linear
    assert MIXERS.find("linear") is nn.Linear
    assert len(scans) == 2


def test_the_files_of_a_specification_are_those_it_names_and_what_they_import(write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(folder="in", own=MIXER, helper="from pack import sub\nscale = 1.0", pack__="", pack__sub="", other="")
    found = own_files({"model": [{"kind": "in/own.py:Own"}], "note": "absent.py:Name", "n": 3})
    names = ["helper.py", "own.py", "pack/__init__.py", "pack/sub.py"]
    assert {name: path.relative_to(tmp_path).as_posix() for name, path in sorted(found.items())} == {
        f"in/{name}": f"in/{name}" for name in names
    }


@pytest.mark.parametrize("name", ["/a/b/own.py", "../own.py", "a/../../own.py", "../../../etc/own.py"])
def test_a_portable_name_never_leads_out_of_its_folder(name):
    path = Path("/node", portable(name))
    assert ".." not in path.parts
    assert path.is_relative_to("/node")
    assert path.name == "own.py"
    assert portable("a/own.py") == portable("./a/own.py") == "a/own.py"


@pytest.fixture
def never_stopped(monkeypatch):
    """A node asks the driver whether to stop; here there is no driver."""
    monkeypatch.setattr(ray, "StopAsked", lambda look, every: lambda: False)


@pytest.mark.parametrize("form", ["own.py", "../code/own.py", "{}/code/own.py"])
@pytest.mark.usefixtures("never_stopped")
def test_a_node_has_the_run_that_was_sent_and_writes_only_below_its_folder(write, tmp_path, monkeypatch, form):
    write(folder="code", own=MIXER, helper="scale = 1.0")
    monkeypatch.chdir(tmp_path / "code")
    run = run_of(f"{form.format(tmp_path)}:Own")
    files = files_of(run)
    assert len(files) == 2
    (tmp_path / "code").rename(tmp_path / "gone")  # a node does not have the folder
    monkeypatch.chdir(tmp_path)
    before = {path for path in tmp_path.rglob("*") if "__pycache__" not in path.parts}
    reports = list(ray._attempt(Order([sent(run)], files, "cpu", 60.0, False), None, None))
    assert not [report for report in reports if isinstance(report, Broken)]
    ended = [report.run for report in reports if hasattr(report, "run")]
    assert [one.id for one in ended] == [run.id]
    assert before == {path for path in tmp_path.rglob("*") if "__pycache__" not in path.parts}
    assert Path.cwd() == tmp_path


@pytest.mark.usefixtures("never_stopped")
def test_a_node_is_not_misled_by_files_of_an_earlier_study(write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = MIXER.replace(
        "from helper import scale", "try:\n    from helper import scale\nexcept ImportError:\n    scale = 3.0"
    )
    write(own=own, helper="scale = 1.0")
    first = run_of("own.py:Own")
    first_files = files_of(first)
    Path("helper.py").unlink()
    second = run_of("own.py:Own")
    for run, files in ((first, first_files), (second, files_of(second))):
        reports = list(ray._attempt(Order([sent(run)], files, "cpu", 60.0, False), None, None))
        assert not [report for report in reports if isinstance(report, Broken)]


def test_files_are_found_at_the_given_folder_and_only_then(write, tmp_path):
    write(folder="node/outside-x", own="class Own: ...")
    name = "/no/such/folder/own.py"
    (tmp_path / "node" / "outside-x").rename(tmp_path / "node" / Path(portable(name)).parent)
    with files_at(tmp_path / "node"):
        assert load(f"{name}:Own")
    with pytest.raises(SpecError, match=r"no file '/no/such/folder/own.py'"):
        load(f"{name}:Own")
