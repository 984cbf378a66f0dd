"""Asked to stop, a study keeps what it has trained, says so, and ends with the same table when it goes on."""

import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from recollect.cli.options import duration
from recollect.spec import SpecError, Stopped
from recollect.store.frames import curves_frame, runs_frame, slices_frame
from recollect.store.store import Store
from recollect.study.run import run
from recollect.study.spec import Study
from recollect.study.stop import StopRequest
from recollect.train.events import Measured

OWN = """
from pathlib import Path
from time import sleep
from torch import nn
calls = []
class Own(nn.Module):
    def __init__(self, width, pause=0.0):
        super().__init__()
        self.mix, self.pause = nn.Linear(width, width), pause
    def forward(self, x):
        calls.extend([1] * (x.shape[1] == 8))  # those of training: the check of causality has other lengths
        if len(calls) == 5 or self.pause:
            Path("begun").touch()
        if self.pause:
            sleep(self.pause)
        return self.mix(x.cumsum(1))
"""
STUDY = """
name: s
task: {kind: mqar, length: 8, pairs: 1, vocab: 16}
model: {mixer: {kind: "own.py:Own", pause: %s}, width: 8, layers: 1}
train: {lr: [0.001, 0.01], seed: [1, 2], steps: 200, batch: 4, eval_every: 20, eval_rows: 16, test_rows: 32}
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Store:
    """The study without an interruption."""
    folder = tmp_path_factory.mktemp("whole")
    before = Path.cwd()
    os.chdir(folder)
    try:
        (folder / "own.py").write_text(OWN)
        run(Study.from_yaml(STUDY % 0.0), store=folder / "whole.sqlite", device="cpu", workers=1, progress=False)
    finally:
        os.chdir(before)
    return Store(folder / "whole.sqlite")


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "s.yaml").write_text(STUDY % 0.0)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def assert_same(one: Store, other: Store) -> None:
    for frame in (runs_frame, curves_frame, slices_frame):
        a, b = (
            frame(store, "s").drop(columns=["seconds", "ended", "versions"], errors="ignore") for store in (one, other)
        )
        pd.testing.assert_frame_equal(a, b, check_exact=True)


def in_training(*words: str) -> subprocess.Popen:
    """The study as a process group of its own, training by now.

    It minds signals also where a shell runs the tests in the background, and so has them ignored.
    """

    def minding() -> None:
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)

    command = [
        sys.executable,
        "-m",
        "recollect.cli",
        "run",
        "s.yaml",
        "--store",
        "store.sqlite",
        "--device",
        "cpu",
        *words,
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=minding, start_new_session=True)
    while not Path("begun").exists():
        assert process.poll() is None
        time.sleep(0.01)
    return process


@pytest.mark.parametrize(
    ("stop", "workers"), [(signal.SIGINT, 2), (signal.SIGTERM, 1), (signal.SIGHUP, 2)], ids=["int", "term", "hup"]
)
def test_each_signal_keeps_every_step_and_the_study_goes_on_to_the_same_bits(here, whole, stop, workers):
    process = in_training("--workers", str(workers), "--cohort", str(4 // workers), "--checkpoint-every", "1000")
    os.killpg(process.pid, stop)  # as a terminal does: the workers get it as well
    _, problems = process.communicate(timeout=30)
    assert process.returncode == 130, problems
    match = re.search(
        rf"stopped by {stop.name}: 0 runs .*, (\d) in training are kept at step (\d+)(?: to (\d+))?", problems
    )
    assert match, problems
    assert "Traceback" not in problems
    kept, low, high = int(match[1]), int(match[2]), int(match[3] or match[2])
    assert kept >= 4 // workers
    assert high > 1
    store, steps = Store("store.sqlite"), []
    assert len(list(store.checkpoints.iterdir())) == kept * workers // 4
    run(
        Study.load("s.yaml"), store=store, device="cpu", workers=1, progress=False,
        sinks=[lambda _, event: steps.extend([event.step] if isinstance(event, Measured) else [])],
    )  # fmt: skip
    assert kept < 4 or min(steps) > low, "what was kept is not trained again"
    assert_same(store, whole)


def test_a_second_interrupt_ends_at_once(here):
    (here / "s.yaml").write_text(STUDY % 60.0)
    process = in_training("--workers", "1")
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0.5)
    process.send_signal(signal.SIGINT)
    _, problems = process.communicate(timeout=10)
    assert process.returncode == 130
    assert problems.strip().endswith("stopped; what has ended is saved, and the same command continues from here")


def test_after_its_time_a_study_stops_and_goes_on(here, whole):
    study, store = Study.load("s.yaml"), Store("store.sqlite", create=True)
    with pytest.raises(
        Stopped, match=r"stopped after 0\.5 seconds, as requested: 0 runs .* 2 have not begun;"
    ) as stopped:
        run(study, store=store, device="cpu", workers=1, cohort=2, stop_after=0.5, progress=False)
    assert stopped.value.exit_code == 75
    run(study, store=store, device="cpu", workers=1, cohort=2, stop_after=600, progress=False)
    assert_same(store, whole)


def test_what_nohup_has_ignored_stays_ignored_and_handlers_come_back():
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP)}
    restore = [partial(signal.signal, *pair) for pair in before.items()]
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with StopRequest() as asked:
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert not asked()
            signal.raise_signal(signal.SIGINT)
            assert asked()
            assert asked.why == "by SIGINT"
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        for back in restore:
            back()


def test_a_time_is_written_as_a_person_would():
    assert [duration(text) for text in ("", "90s", "25m", "1h30m", "45")] == [0, 90, 1500, 5400, 45]
    with pytest.raises(SpecError, match="write a time such as 90s, 25m or 1h30m"):
        duration("soon")
