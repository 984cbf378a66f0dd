"""What stands in examples/ runs as it says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from recollect.spec.registry import load
from recollect.store.frames import runs_frame
from recollect.store.store import Store
from recollect.study.spec import Study
from recollect.testing import MixerConformance, TaskConformance

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


class TestMyMixer(MixerConformance):
    mixer = load(f"{EXAMPLES / 'my_mixer.py'}:MyMixer")


class TestMyTask(TaskConformance):
    task = load(f"{EXAMPLES / 'my_task.py'}:Successor")()
    keyed = True


def test_the_mixer_is_probed_on_the_task(recollect):
    mixer, task = f"{EXAMPLES / 'my_mixer.py'}:MyMixer", f"{EXAMPLES / 'my_task.py'}:Successor"
    result = recollect("probe", mixer, "heads=4", "--task", task, "--width", 8, "--steps", 1, "--seeds", 1)
    assert result.code == 0, result.out
    assert "BROKEN" not in result.out
    assert "MyMixer(heads=4) beside others: Successor, width 8, at most 1 steps" in result.out


def test_the_study_uses_both_and_the_mixer_learns_the_task(recollect, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    result = recollect("run", "examples/my_study.yaml", "--store", tmp_path / "store.sqlite")
    assert result.code == 0, result.err
    frame = runs_frame(Store(tmp_path / "store.sqlite"), "my-study")
    assert frame[frame["model"] == "MyMixer"]["accuracy"].max() > 0.95


def test_the_script_prints_and_draws(tmp_path):
    done = subprocess.run(
        [sys.executable, EXAMPLES / "sweep.py", "--folder", tmp_path], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^ *[0-9a-f]{16} +attention\(conv=k\) ", done.stdout, re.MULTILINE)) == 6
    assert (tmp_path / "sweep" / "window.png").stat().st_size > 10_000


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_every_study_file_unfolds(path, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert Study.load(path).runs()
