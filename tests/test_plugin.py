"""A mixer, a task, an optimiser, a schedule, a search and an executor come from an installed package, found by entry points."""

import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = Path(__file__).parent / "plugin"
STUDY = """
name: plugged
task: {kind: echo, length: 3}
model: {mixer: [{kind: shift, gain: 2.0}, attention], width: 16, layers: 1}
train: {lr: [0.001, 0.01, 0.1], steps: 20, batch: 8, eval_every: 10, eval_rows: 16, test_rows: 32,
        optimiser: sign, keep: [0.2, 0.4], schedule: halves, late: 0.5, warmup: 0.0}
search: ends
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> dict[str, str]:
    """An environment with the plugin installed, beside an untouched recollect."""
    folder = tmp_path_factory.mktemp("site")
    words = ["-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", str(folder), str(PLUGIN)]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "PATH": "", "HOME": str(folder)}


def python(code: str, installed: dict[str, str], cwd: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=cwd, env=installed)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_one_of_each_kind_is_found_and_used(installed, tmp_path):
    (tmp_path / "plugged.yaml").write_text(STUDY)
    code = """
from recollect import Study
from recollect_plugin import Shy
outcome = Study.load("plugged.yaml").run(store="s.sqlite", executor="shy", progress=False)
frame = outcome.results("all")
assert sorted(frame["train.lr"].unique()) == [0.001, 0.1], frame
assert outcome.searches["plugged"].grid == 12 and len(outcome.searches["plugged"].asked) == 8
assert set(frame["model"]) == {"shift(gain=2.0)", "attention"}
assert set(frame["train.optimiser"]) == {"sign"} and set(frame["train.keep"]) == {0.2, 0.4}
assert set(frame["train.schedule"]) == {"halves"} and set(frame["train.late"]) == {0.5}
assert "train.beta2" not in frame, "an optimiser's own fields only"
assert Shy.cohorts == [4, 4], "runs that differ in the optimiser's numbers train together"
lr = outcome.curves().groupby("run")["lr"].agg(list)
assert all(values[1] == values[0] / 2 for values in lr), lr
print("done")
"""
    assert python(code, installed, tmp_path) == "done"


def test_the_source_of_an_entry_point_is_part_of_a_runs_identity(installed, tmp_path):
    (tmp_path / "plugged.yaml").write_text(STUDY)
    code = "from recollect import Study; print(sorted(run.id for run in Study.load('plugged.yaml').runs()))"
    before = python(code, installed, tmp_path)
    module = Path(installed["PYTHONPATH"]) / "recollect_plugin" / "__init__.py"
    source = module.read_text()
    try:
        module.write_text(source.replace("return 1.0 if step", "return 0.9 if step"))
        assert python(code, installed, tmp_path) != before
    finally:
        module.write_text(source)
    assert python(code, installed, tmp_path) == before


def test_names_of_installed_packages_are_offered(installed, tmp_path):
    code = """
from recollect.mixers import MIXERS
from recollect.tasks import TASKS
from recollect.spec import SpecError
assert "shift" in list(MIXERS) and "echo" in list(TASKS)
try:
    MIXERS.find("shfit")
except SpecError as error:
    print(error)
"""
    assert "did you mean 'shift'?" in python(code, installed, tmp_path)
