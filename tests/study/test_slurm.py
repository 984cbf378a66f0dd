"""On a Slurm cluster a study gives the same table, also when a job is cancelled, a time limit comes and the driver is killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from recollect.spec import SpecError
from recollect.store.frames import curves_frame, runs_frame, slices_frame
from recollect.store.store import Store
from recollect.study.executors.base import Resources
from recollect.study.executors.slurm import Slurm
from recollect.study.run import run
from recollect.study.spec import Study

OWN = """
from torch import nn
class Own(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Linear(width, width)
    def forward(self, x):
        return self.mix(x.cumsum(1))
"""
STUDY = """
name: s
task: {kind: mqar, length: 16, pairs: 2, vocab: 32}
model: {mixer: [attention, "own.py:Own"], width: 16, layers: 1}
train: {lr: [0.001, 0.003, 0.01, 1000.0], seed: [1, 2, 3], steps: %d, batch: 8, eval_every: 50, eval_rows: 16, test_rows: 64}
"""


def frames(store: Store) -> list[pd.DataFrame]:
    timings = ["seconds", "ended", "device", "versions"]
    return [runs_frame(store, "s").drop(columns=timings), curves_frame(store, "s"), slices_frame(store, "s")]


def assert_same(one: Store, other: Store) -> None:
    for a, b in zip(frames(one), frames(other), strict=True):
        pd.testing.assert_frame_equal(a, b, check_exact=True)
    assert one._query("PRAGMA integrity_check") == [("ok",)]


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def driver(environment: dict[str, str], *words: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "recollect.cli", "run", "s.yaml", "--store", "slurm.sqlite", "--executor", "slurm"]
    options = ["--cohort", "3", "--workers", "4", "--checkpoint-every", "0.2", "--partition", "work", *words]
    return subprocess.Popen(
        [*command, *options], env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def running(environment: dict[str, str]) -> list[str]:
    """The numbers of the jobs that run."""
    words = ["squeue", "--noheader", "--array", "--states", "RUNNING", "--format", "%i"]
    return subprocess.run(
        words, env=os.environ | environment, capture_output=True, text=True, check=True
    ).stdout.split()


def wait_for(condition, process: subprocess.Popen, seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.1)


def appears(name: str, meanwhile: Callable[[], object] = lambda: None) -> None:
    """Wait for a report of any job."""
    until = time.monotonic() + 120
    while not list(Path("slurm.sqlite.jobs").glob(f"*/{name}")):
        assert time.monotonic() < until
        meanwhile()
        time.sleep(0.5)


@pytest.mark.long
def test_a_cancelled_job_and_a_killed_driver_leave_the_table_of_the_local_run(here, slurm):
    Path("s.yaml").write_text(STUDY % 600)
    alone, store = Store("alone.sqlite", create=True), Store("slurm.sqlite", create=True)
    run(Study.load("s.yaml"), store=alone, device="cpu", workers=2, cohort=3, progress=False)
    first = driver(slurm)
    wait_for(store.checkpoints.exists, first)
    cancelled = running(slurm)[0]
    subprocess.run(["scancel", cancelled], env=os.environ | slurm, check=True)
    wait_for(lambda: len(store.done()) >= 3, first)
    first.kill()
    first.communicate()
    assert len(store.done()) < 24
    time.sleep(3)  # jobs go on without it
    second = driver(slurm)
    output, problems = second.communicate(timeout=300)
    assert second.returncode == 0, problems
    assert_same(store, alone)
    assert any(cancelled in failure.error for failure in store.failures()) or cancelled in output
    assert not Path("slurm.sqlite.jobs").exists()
    assert not store.checkpoints.exists()


@pytest.mark.long
def test_a_job_whose_time_is_up_saves_a_snapshot_and_is_requeued_and_a_stopped_driver_comes_back(here, slurm):
    study = STUDY.replace("[0.001, 0.003, 0.01, 1000.0]", "0.01").replace("[1, 2, 3]", "[1, 2]") % 2000
    Path("s.yaml").write_text(study)
    alone, store = Store("alone.sqlite", create=True), Store("slurm.sqlite", create=True)
    run(Study.load("s.yaml"), store=alone, device="cpu", workers=2, progress=False)
    first = driver(slurm, "--checkpoint-every", "1000")
    wait_for(lambda: len(running(slurm)) == 2, first)
    numbers = running(slurm)
    first.send_signal(signal.SIGINT)
    _, problems = first.communicate(timeout=60)
    assert first.returncode == 130
    assert f"Slurm jobs {numbers[0].partition('_')[0]} go on meanwhile" in problems
    appears("0000-*.report")
    for number in numbers:  # as Slurm does before a time limit
        subprocess.run(["scancel", "--signal", "USR2", number], env=os.environ | slurm)
    hurry = [
        ["scontrol", "update", f"JobId={number}", "StartTime=now"] for number in numbers
    ]  # Slurm waits two minutes
    appears(
        "0001-*.report", lambda: [subprocess.run(words, env=os.environ | slurm, capture_output=True) for words in hurry]
    )
    second = driver(slurm)
    _, problems = second.communicate(timeout=300)
    assert second.returncode == 0, problems
    assert_same(store, alone)
    assert not store.failures(), "a job that is requeued has not failed"


def test_without_slurm_or_with_a_device_of_its_own_it_is_one_line(monkeypatch):
    with pytest.raises(SpecError, match="Slurm picks the device itself"):
        Slurm.has_bfloat16(Resources(device="cuda:1"))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SpecError, match="there is no sbatch here"):
        Slurm.start(Resources())
