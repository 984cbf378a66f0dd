"""A mixer that misbehaves in any way costs its own runs only: those beside it have the numbers that they have alone."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from recollect.store.frames import curves_frame, runs_frame
from recollect.store.store import Store
from recollect.study.run import run
from recollect.study.spec import Study

HOSTILE = """
import os, random, sys, threading, time, warnings
import numpy, torch
from torch import nn

class Mixer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Linear(width, width)
    def forward(self, x):
        self.misbehave()
        return self.mix(x.cumsum(1))
    def misbehave(self):
        pass

class State(Mixer):
    def misbehave(self):
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(2)
        torch.manual_seed(1), random.seed(1), numpy.random.seed(1)
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cudnn.benchmark = True
        torch.set_float32_matmul_precision("medium")
        torch.set_flush_denormal(True)
        os.environ["HOSTILE"] = "1"
        warnings.simplefilter("ignore")
        nn.functional.gelu = nn.functional.relu
class Device(Mixer):
    def misbehave(self):
        torch.set_default_device("meta")
class Exit(Mixer):
    def misbehave(self):
        sys.exit(0)
class HardExit(Mixer):
    def misbehave(self):
        os._exit(0)
class Abort(Mixer):
    def misbehave(self):
        os.abort()
class Odd(Mixer):
    def misbehave(self):
        raise BaseException("odd")
class Interrupt(Mixer):
    def misbehave(self):
        raise KeyboardInterrupt
class Loop(Mixer):
    def misbehave(self):
        while True:
            time.sleep(1)
class Leak(Mixer):
    kept = []
    def misbehave(self):
        self.kept.append(torch.ones(2**28))
class Fork(Mixer):
    calls = 0
    def misbehave(self):
        Fork.calls += 1
        if Fork.calls == 5:
            os.fork()
class Thread(Mixer):
    def __init__(self, width):
        super().__init__(width)
        threading.Thread(target=time.sleep, args=(1000,)).start()
class Print(Mixer):
    def misbehave(self):
        print("x" * 2**20)
"""
STUDY = """
name: s
task: {kind: mqar, length: 16, pairs: 2, vocab: 32}
model: {mixer: [%s], width: 16, layers: 1}
train: {lr: [0.001, 0.01], steps: 20, batch: 8, eval_every: 10, eval_rows: 16, test_rows: 32}
"""
ENDING = ["Exit", "HardExit", "Abort", "Odd", "Interrupt"]
ENDURED = ["State", "Device", "Fork", "Thread", "Print"]


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    (tmp_path / "hostile.py").write_text(HOSTILE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Store:
    """Attention by itself."""
    path = tmp_path_factory.mktemp("alone") / "alone.sqlite"
    run(Study.from_yaml(STUDY % "attention"), store=path, device="cpu", workers=1, progress=False)
    return Store(path)


def frames(store: Store) -> list[pd.DataFrame]:
    runs = runs_frame(store, "s")
    runs = runs[runs["model"] == "attention"].drop(columns=["seconds", "ended", "versions"])
    curves = curves_frame(store, "s")
    own = (runs, curves[curves["run"].isin(runs["id"])])
    return [frame.dropna(axis=1, how="all").reset_index(drop=True) for frame in own]


def trained(mixers: list[str], *words: str, **how) -> tuple[subprocess.CompletedProcess, Store]:
    """The command line on a study of these mixers of the hostile file, with attention between any two of them."""
    names = [word for mixer in mixers for word in ("attention", f'"hostile.py:{mixer}"')]
    Path("s.yaml").write_text(STUDY % ", ".join(dict.fromkeys([*names, "attention"])))
    command = [sys.executable, "-m", "recollect.cli", "run", "s.yaml", "--store", "s.sqlite", "--device", "cpu"]
    done = subprocess.run(
        [*command, "--attempts", "1", "--checkpoint-every", "1000", *words], capture_output=True, text=True, timeout=600, **how
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done, Store("s.sqlite")


def assert_attention_as_alone(store: Store, alone: Store) -> None:
    for mine, theirs in zip(frames(store), frames(alone), strict=True):
        pd.testing.assert_frame_equal(
            mine, theirs, check_exact=True, check_dtype=False
        )  # elsewhere a value may be missing


def failed(store: Store) -> dict[str, str]:
    """The error of each model that failed."""
    return {
        run.model.title: store.failed()[run.id].error for run in Study.load("s.yaml").runs() if run.id in store.failed()
    }


def test_changed_settings_and_ends_of_the_process_stay_in_it_and_are_reported(here, alone):
    everyone = ["State", "Exit", "HardExit"]
    done, store = trained(everyone, "--workers", "1", "--cohort", "2")
    assert done.returncode == 1
    assert_attention_as_alone(store, alone)
    runs = runs_frame(store, "s")
    assert len(runs) == 4
    (note,) = {note for notes in runs["notes"] for note in json.loads(notes)}
    for word in (
        "(torch.float32 to torch.float64)",
        "threads (1 to 2)",
        "seed",
        "deterministic",
        "denormal",
        "HOSTILE",
    ):
        assert word in note
    assert "".join(note.split()) in "".join(done.stdout.split())
    assert "4 of 8 runs failed" in done.stderr
    assert set(failed(store)) == {"Exit", "HardExit"}
    assert failed(store)["Exit"].startswith("SystemExit: 0 (hostile.py:")
    assert re.fullmatch(r"worker process \d+ died \(exit code 0\)", failed(store)["HardExit"])
    again, _ = trained(everyone)
    assert again.returncode == 1
    assert "4 of them failed before and were not tried now" in again.stderr
    assert "--retry tries them again" in again.stderr
    assert {last.attempt for last in store.failed().values()} == {2}


@pytest.mark.long
def test_a_cohort_that_takes_too_long_is_killed_and_its_runs_reported(here, alone):
    started = time.monotonic()
    done, store = trained(["Loop"], "--timeout", "10s")
    assert time.monotonic() - started < 120
    assert done.returncode == 1
    assert_attention_as_alone(store, alone)
    assert failed(store) == {"Loop": "no end after 10 seconds (--timeout): its worker was killed"}


@pytest.mark.long
def test_every_kind_of_misbehaviour_at_once(here, alone):
    memory = 8 * 2**30

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    everyone = [*ENDURED, *ENDING, "Leak", "Loop"]
    done, store = trained(everyone, "--workers", "2", "--cohort", "2", "--timeout", "90s", preexec_fn=limited)
    assert done.returncode == 1
    assert_attention_as_alone(store, alone)
    assert set(failed(store)) == {*ENDING, "Leak", "Loop"}, failed(store)
    assert "memory" in failed(store)["Leak"].lower()
    assert set(runs_frame(store, "s")["model"]) == {"attention", *ENDURED}


@pytest.mark.long
def test_a_change_on_import_reaches_no_other_run(here, alone):
    (here / "hostile.py").write_text("import torch\ntorch.set_default_dtype(torch.float64)\n" + HOSTILE)
    done, store = trained(["Mixer"], "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert_attention_as_alone(store, alone)
    notes = set(runs_frame(store, "s")["notes"])
    assert notes == {
        "[]",
        '["importing hostile.py changes default dtype (torch.float32 to torch.float64), which was set back"]',
    }


@pytest.mark.long
def test_ctrl_c_while_workers_start_leaves_one_line(here):
    (here / "s.yaml").write_text(STUDY % "attention")
    command = [
        sys.executable,
        "-m",
        "recollect.cli",
        "run",
        "s.yaml",
        "--store",
        "s.sqlite",
        "--workers",
        "2",
        "--cohort",
        "1",
    ]

    def minding() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    for twice in (False, True):
        process = subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=minding,
        )
        assert process.stdout is not None
        process.stdout.readline()  # the study has begun, and its workers are started
        time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)
        if twice:
            time.sleep(0.3)
            os.killpg(process.pid, signal.SIGINT)
        _, problems = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "Traceback" not in problems
