"""What goes wrong in a study costs as little as it can, and is reported plainly."""

import hashlib
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
import torch
import yaml

from recollect.store.frames import curves_frame, runs_frame, slices_frame
from recollect.store.store import Store, StoreError
from recollect.study.executors import base
from recollect.study.executors.base import Resources
from recollect.study.executors.local import InProcess
from recollect.study.run import run
from recollect.study.spec import Study
from recollect.study.trainer import Note
from recollect.train.events import Ended, Measured

FUSSY = """
from torch import nn
class Fussy(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Linear(width, width)
    def forward(self, x):
        if not x.isfinite().all():
            raise ArithmeticError("this is no number")
        return self.mix(x.cumsum(1))
"""
STUDY = """
name: s
task: {kind: mqar, length: 16, pairs: 2, vocab: 32}
model: {mixer: %s, width: 16, layers: 1}
train: {lr: [0.001, 0.003, 0.01, %s], seed: [1, 2], steps: %d, batch: 8, eval_every: 20, eval_rows: 16, test_rows: 64}
"""


def study(mixer="attention", lr="0.03", steps=40) -> Study:
    return Study(**yaml.safe_load(STUDY % (mixer, lr, steps)))


def command(*words) -> list[str]:
    # As the installed command does it: under `-m`, Python may end by the signal itself after the exit code was given.
    main = "from recollect.cli import main; main()"
    return [sys.executable, "-c", main, "run", "s.yaml", "--store", "store.sqlite", *words]


def frames(store: Store) -> list[pd.DataFrame]:
    timings = ["seconds", "ended", "device", "versions"]
    return [runs_frame(store, "s").drop(columns=timings), curves_frame(store, "s"), slices_frame(store, "s")]


def assert_same(one: Store, other: Store) -> None:
    for a, b in zip(frames(one), frames(other), strict=True):
        pd.testing.assert_frame_equal(a, b, check_exact=True)
    assert one._query("PRAGMA integrity_check") == [("ok",)]


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def whole(here) -> Store:
    """What the study gives when nothing happens."""
    store = Store("whole.sqlite", create=True)
    run(study(), store=store, device="cpu", workers=1, progress=False)
    return store


def test_a_run_that_raises_is_found_in_its_cohort_and_reported_alone(here):
    (here / "fussy.py").write_text(FUSSY)
    (here / "s.yaml").write_text(STUDY % ("fussy.py:Fussy", "1.0e+30", 40))
    result = subprocess.run(command("--cohort", "8"), capture_output=True, text=True)
    assert result.returncode == 1, result.stderr
    store = Store("store.sqlite")
    ends = runs_frame(store)
    assert len(ends) == 6
    assert "2 of 8 runs failed" in result.stderr
    assert result.stderr.count("ArithmeticError: this is no number") == 1  # for both runs
    assert "2 runs: " in result.stderr
    assert "The picture: " in result.stdout  # of those that ended
    assert "Traceback" not in result.stderr
    records = [(each.run, each.attempt, each.traceback) for each in store.failures()]
    assert all("this is no number" in text for _, _, text in records)
    bad = [run.id for run in study("fussy.py:Fussy", "1.0e+30").runs() if run.train.lr > 1]
    assert all([attempt for run, attempt, _ in records if run == id] == [1, 2, 3, 4, 5] for id in bad)
    good = Store("good.sqlite", create=True)
    run(study("fussy.py:Fussy", "0.003"), store=good, device="cpu", workers=1, progress=False)
    assert_same(store, good)


def test_a_failed_run_stays_failed_until_it_is_tried_again(whole, monkeypatch):
    store, bad = Store("store.sqlite", create=True), study().runs()[2].id
    train = base.train

    def faulty(members, *rest):
        if bad in {run.id for run in members}:
            raise RuntimeError("planted")
        return train(members, *rest)

    monkeypatch.setattr(base, "train", faulty)
    outcome = run(study(), store=store, device="cpu", workers=1, progress=False)
    assert list(outcome.failed) == [bad]
    assert outcome.failed[bad].startswith("RuntimeError: planted (test_faults.py:")
    assert outcome.ended["finished"] == 7
    monkeypatch.setattr(base, "train", train)
    again = run(study(), store=store, device="cpu", workers=1, progress=False)
    assert (again.ended, again.failed, again.left) == ({}, outcome.failed, (bad,))
    assert store.failed()[bad].attempt == len([failure for failure in store.failures() if failure.run == bad])
    last = run(study(), store=store, device="cpu", workers=1, progress=False, retry=True)
    assert (last.ended, last.failed) == ({"finished": 1}, {})
    assert not store.failed()
    assert_same(store, whole)


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("not enough memory: you tried ..."), MemoryError()],
    ids=["cuda", "cpu", "python"],
)
def test_out_of_memory_halves_the_cohort_and_those_after_it_and_fails_nothing(whole, monkeypatch, error):
    store, sizes, notes = Store("store.sqlite", create=True), [], []
    train = base.train

    def small(members, *rest):
        sizes.append(len(members))
        if len(members) > 2:
            raise error
        return train(members, *rest)

    def watch(_, event):
        if isinstance(event, Note):
            notes.append(event.text)

    monkeypatch.setattr(base, "train", small)
    outcome = run(study(), store=store, device="cpu", workers=1, cohort=4, sinks=[watch], progress=False)
    assert outcome.ended == {"finished": 8}
    assert sizes == [4, 2, 2, 2, 2], "found out once"
    assert notes == ["out of memory with 4 runs of attention at once; 2 from now on"]
    assert store.failures() == []
    assert_same(store, whole)


def test_a_cohort_too_large_for_the_memory_measured_is_cut_to_what_fits_before_it_starts(whole, monkeypatch):
    store, sizes = Store("store.sqlite", create=True), []
    train = base.train

    def watched(members, *rest):
        sizes.append(len(members))
        return train(members, *rest)

    monkeypatch.setattr(base, "train", watched)
    monkeypatch.setattr(base, "_room", lambda runs, device: 3)
    assert run(study(), store=store, device="cpu", workers=1, cohort=8, progress=False).ended == {"finished": 8}
    assert sizes == [3, 2, 3]
    assert_same(store, whole)


def test_a_run_that_does_not_fit_alone_fails(here, monkeypatch):
    def never(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(base, "train", never)
    outcome = run(study(), store=Store("store.sqlite", create=True), device="cpu", workers=1, progress=False)
    assert len(outcome.failed) == 8


def test_out_of_memory_inside_the_model_is_not_taken_for_a_model_that_cannot_be_batched(here):
    (here / "hungry.py").write_text(FUSSY.replace("if not x.isfinite().all():", "if True:").replace(
        'ArithmeticError("this is no number")', 'RuntimeError("not enough memory")'))  # fmt: skip
    store = Store("store.sqlite", create=True)
    outcome = run(study("hungry.py:Fussy"), store=store, device="cpu", workers=1, progress=False)  # warnings are errors
    (error,) = set(outcome.failed.values())
    assert error.startswith("RuntimeError: not enough memory (hungry.py:")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_that_runs_out_of_memory_gets_smaller_cohorts(here):
    task = {"kind": "mqar", "length": 256, "pairs": 16, "vocab": 8192}
    train = {"lr": "logspace(1e-4, 1e-2, 16)", "steps": 4, "batch": 256, "test_rows": 256, "eval_rows": 64}
    asked = Study(name="s", task=task, model={"width": 64}, train=train)
    notes: list[str] = []

    def watch(_, event):
        if isinstance(event, Note):
            notes.append(event.text)

    torch.cuda.set_per_process_memory_fraction(3e9 / torch.cuda.get_device_properties(0).total_memory)
    try:
        outcome = run(
            asked,
            store=Store("store.sqlite", create=True),
            device="cuda",
            workers=1,
            cohort=16,
            sinks=[watch],
            progress=False,
        )
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert sum(outcome.ended.values()) == 16
    assert not outcome.failed
    assert notes, "the cohort of 16 should not have fitted"


class Interrupted(BaseException):
    """Stands for the end of the process."""


def interrupted(store: Store, when, asked: Study | None = None) -> None:
    """Run the study with a snapshot after every step, up to the event that `when` knows."""

    def watch(_, event):
        if when(event):
            raise Interrupted

    with pytest.raises(Interrupted):
        run(
            asked or study(),
            store=store,
            executor=InProcess(Resources("cpu", checkpoint_every=0.0)),
            cohort=4,
            sinks=[watch],
            progress=False,
        )


def test_a_moved_store_goes_on_from_its_snapshots(whole, here):
    store = Store("store.sqlite", create=True)
    interrupted(store, lambda event: isinstance(event, Measured) and event.step == 20)
    assert len(list(store.checkpoints.iterdir())) == 1
    (here / "elsewhere").mkdir()
    for path in (store.path, store.checkpoints):
        shutil.move(path, here / "elsewhere" / path.name)
    moved, first = Store("elsewhere/store.sqlite"), []

    def watch(_, event):
        if isinstance(event, Measured):
            first.append(event.step)

    run(study(), store=moved, device="cpu", workers=1, cohort=4, sinks=[watch], progress=False)
    assert first == [20, 40, 20, 40], "the first cohort went on at step 19: after that snapshot, before the measurement"
    assert_same(moved, whole)
    assert not moved.checkpoints.exists()


def test_members_that_ended_since_the_snapshot_are_not_repeated(here):
    asked = study(lr="1000.0")  # diverges at the first measurement, and leaves
    whole, store = Store("whole.sqlite", create=True), Store("store.sqlite", create=True)
    run(asked, store=whole, device="cpu", workers=1, progress=False)
    saved = InProcess(Resources("cpu", checkpoint_every=0.0))
    last = [run.id for run in asked.runs() if run.train.lr > 1]

    def watch(_, event):
        if isinstance(event, Ended) and event.run.id == last[-1]:
            saved._every = 1e9
            raise_later.append(event)
        elif raise_later and isinstance(event, Measured):
            raise Interrupted

    raise_later: list = []
    with pytest.raises(Interrupted):
        run(asked, store=store, executor=saved, cohort=8, sinks=[watch], progress=False)
    assert set(store.done()) == set(last)
    trained: list[str] = []

    def count(_, event):
        if isinstance(event, Ended):
            trained.append(event.run.id)

    run(asked, store=store, device="cpu", workers=1, cohort=2, sinks=[count], progress=False)
    assert len(trained) == 6
    assert not set(trained) & set(last)
    assert_same(store, whole)


def test_a_snapshot_that_cannot_be_used_costs_the_time_and_nothing_else(whole):
    store, notes = Store("store.sqlite", create=True), []
    interrupted(store, lambda event: isinstance(event, Measured) and event.step == 40)
    (path,) = store.checkpoints.iterdir()
    data = path.read_bytes()[:-32].replace(b"params.embedding.weight", b"params.embedding.weighs")
    path.write_bytes(data + hashlib.sha256(data).digest())

    def watch(_, event):
        if isinstance(event, Note):
            notes.append(event.text)

    assert run(study(), store=store, device="cpu", workers=1, cohort=4, sinks=[watch], progress=False).ended == {
        "finished": 8
    }
    assert "start anew" in notes[0]
    assert_same(store, whole)


def test_a_damaged_snapshot_costs_the_time_and_nothing_else(whole):
    store = Store("store.sqlite", create=True)
    interrupted(store, lambda event: isinstance(event, Measured) and event.step == 40)
    (path,) = store.checkpoints.iterdir()
    data = bytearray(path.read_bytes())
    data[-1000] ^= 1
    path.write_bytes(data)
    with pytest.warns(UserWarning, match="damaged .*start anew"):
        outcome = run(study(), store=store, device="cpu", workers=1, cohort=4, progress=False)
    assert outcome.ended == {"finished": 8}
    assert_same(store, whole)


def test_snapshots_of_another_study_are_left_alone(here):
    store = Store("store.sqlite", create=True)
    interrupted(store, lambda event: isinstance(event, Measured) and event.step == 20)
    run(study(lr="0.1", steps=20).changed(name="other"), store=store, device="cpu", workers=1, progress=False)
    assert len(list(store.checkpoints.iterdir())) == 1


def started(*words) -> subprocess.Popen:
    """The study as a process of its own, training by now.

    It minds SIGINT also where a shell runs the tests in the background, and so has it ignored.
    """
    minding = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(
        command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=minding
    )
    assert process.stdout is not None
    assert "study s: 8 runs" in process.stdout.readline()
    while not Path("store.sqlite.holder").exists():
        time.sleep(0.01)
    return process


def test_of_two_processes_the_second_gets_an_error_that_names_the_first(whole, here):
    (here / "s.yaml").write_text(STUDY % ("attention", "0.03", 40))
    both = [subprocess.Popen(command(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    problems = [process.communicate()[1] for process in both]
    codes = [process.returncode for process in both]
    assert 0 in codes, problems
    for i, code in enumerate(codes):
        assert code in (0, 3)  # 0 for both, if one was done before the other looked
        if code == 3:
            assert f"store.sqlite is in use by process {both[1 - i].pid} on" in problems[i]
            assert len(problems[i].strip().splitlines()) == 1
    assert_same(Store("store.sqlite"), whole)


@pytest.mark.long
@pytest.mark.parametrize(
    ("limit", "words"),
    [(40_000, ()), (100_000, ("--checkpoint-every", "0")), (2_000, ())],
    ids=["store", "snapshot", "nothing"],
)
def test_a_full_disk_is_one_clear_line_and_the_same_command_goes_on(whole, here, limit, words):
    (here / "s.yaml").write_text(STUDY % ("attention", "0.03", 40))
    words = ("--cohort", "4", *words)

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    result = subprocess.run(command(*words), capture_output=True, text=True, preexec_fn=small_files)
    assert result.returncode == 2, result.stderr
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr
    assert re.match(r"error: cannot write to \S*store\.sqlite", result.stderr)
    assert "the same command continues from there" in result.stderr
    again = subprocess.run(command(*words), capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert_same(Store("store.sqlite"), whole)


def test_a_disk_that_fails_in_the_middle_of_a_transaction_leaves_it_out(here, monkeypatch):
    store = Store("store.sqlite", create=True)

    def fail(_):
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr("recollect.store.writer._best", fail)
    with pytest.raises(StoreError, match=r"cannot write to store\.sqlite \(disk I/O error\)"):
        run(study(), store=store, device="cpu", workers=1, progress=False)
    assert store.done() == {}
