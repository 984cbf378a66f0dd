"""Where a study is trained makes no difference to its results; a worker that dies costs no run."""

import os
import signal
import time
from pathlib import Path

import pandas as pd
import pytest

from recollect.spec import SpecError
from recollect.store.frames import curves_frame, runs_frame, slices_frame
from recollect.store.store import Store
from recollect.study.executors import EXECUTORS
from recollect.study.executors.base import Resources
from recollect.study.executors.local import InProcess, Local
from recollect.study.executors.reports import Broken, Done
from recollect.study.executors.workers import Workers
from recollect.study.run import run
from recollect.study.spec import Study
from recollect.study.trainer import Note
from recollect.train.events import Measured

OWN = """
from torch import nn
class Own(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Linear(width, width)
    def forward(self, x):
        return self.mix(x.cumsum(1))
"""


def study(**model) -> Study:
    task = {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32}
    train = {"steps": 40, "batch": 8, "eval_every": 10, "eval_rows": 16, "test_rows": 32}
    train |= {"lr": [1e-3, 1e-2, 1e3], "seed": [1, 2]}
    return Study(name="s", task=task, model={"width": 16, "layers": 1, **model}, train=train)


def frames(store: Store) -> list[pd.DataFrame]:
    timings = ["seconds", "ended", "device", "versions"]
    return [runs_frame(store, "s").drop(columns=timings), curves_frame(store, "s"), slices_frame(store, "s")]


def assert_same(one: Store, other: Store) -> None:
    for a, b in zip(frames(one), frames(other), strict=True):
        pd.testing.assert_frame_equal(a, b, check_exact=True)


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_workers_give_the_results_of_this_process_to_the_bit_own_code_included(here):
    asked = study(mixer=["attention", "own.py:Own"])
    alone, shared = Store("alone.sqlite", create=True), Store("shared.sqlite", create=True)
    run(asked, store=alone, device="cpu", workers=1, cohort=3, progress=False)
    with Local.start(Resources(device="cpu", workers=2)) as workers:
        outcome = run(asked, store=shared, executor=workers, cohort=2, progress=False)
        assert run(asked, store=shared, executor=workers, progress=False).reused == 12, (
            "an executor serves more than one study"
        )
    assert outcome.ended == {"finished": 8, "diverged": 4}
    assert_same(alone, shared)
    assert set(runs_frame(shared)["device"]) == {"cpu"}


WARNS = """
import warnings
from torch import nn
class Own(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Linear(width, width)
    def forward(self, x):
        warnings.warn("a slow path\\n  is taken: see\\n  the manual")
        return self.mix(x.cumsum(1))
"""


def test_a_warning_in_workers_is_one_line_printed_once(here, capfd):
    (here / "own.py").write_text(WARNS)
    notes = []

    def watch(cohort, event):
        notes.extend([event.text] if isinstance(event, Note) else [])

    with Local.start(Resources(device="cpu", workers=2)) as workers:
        run(study(mixer="own.py:Own"), store="w.sqlite", executor=workers, cohort=2, sinks=[watch], progress=False)
    warned = [note for note in notes if "slow path" in note]
    assert len(warned) == 1, "three cohorts in two workers warned"
    assert warned[0].startswith("UserWarning: a slow path is taken: see the manual (")
    assert "own.py:9)" in warned[0]
    assert capfd.readouterr().err == "", "nothing reaches the screen past the progress display"


AHEAD = """
import torch
from torch import nn
class Own(nn.Module):
    def __init__(self, width, noise=0.0):
        super().__init__()
        self.noise, self.drop, self.mix = noise, nn.Dropout(0.1), nn.Linear(width, width)
class Causal(Own):
    def forward(self, x):
        return self.drop(self.mix(x.cumsum(1)))
class Ahead(Own):
    def forward(self, x):
        later = x.mean(1, keepdim=True) + torch.zeros(x.shape[-1])  # no float64 without float32
        return self.mix(x + later + self.noise * torch.randn_like(x))
class Chunks(Own):
    def forward(self, x):
        assert x.shape[1] % 16 == 0, "whole chunks only"
        return self.mix(x.cumsum(1))
class Single(Own):
    def forward(self, x):
        return torch.cat([x[:, 1:], x[:, :1]], 1) @ torch.eye(x.shape[-1])  # float32 only
"""


def test_a_mixer_of_ones_own_that_looks_ahead_is_reported_once_and_before_it_trains(here):
    (here / "ahead.py").write_text(AHEAD)
    notes, trained = [], []

    def watch(cohort, event):
        notes.extend([event.text] if isinstance(event, Note) and "not causal" in event.text else [])
        trained.extend([len(notes)] if isinstance(event, Measured) else [])

    centred = {"kind": "attention", "conv": "k", "conv_causal": False}  # built in, and says itself what it is
    noisy = {"kind": "ahead.py:Ahead", "noise": 1.0}  # random numbers are no proof of anything
    mixers = ["ahead.py:Ahead", "ahead.py:Single", "ahead.py:Causal", "ahead.py:Chunks", noisy, centred]
    asked = study(mixer=mixers, layers=2).changed(train={"lr": [1e-3, 1e-2], "steps": 2, "batch": 4, "test_rows": 4})
    run(asked, store="a.sqlite", device="cpu", workers=1, cohort=1, sinks=[watch], progress=False)
    ahead, single = sorted(notes)
    assert ahead.startswith("ahead.py:Ahead is not causal: token 1 moves the output by ")
    assert single.startswith("ahead.py:Single is not causal: token 1 moves the output by ")
    assert min(trained) == 1, "the first mixer's warning came before its training"


def test_a_worker_that_is_silent_for_long_is_reported_and_waited_for(here, monkeypatch):
    monkeypatch.setattr("recollect.study.executors.workers.SILENCE", 0.3)  # a new process takes longer to begin
    notes = []

    def watch(cohort, event):
        notes.extend([event.text] if isinstance(event, Note) else [])

    with Local.start(Resources(device="cpu", workers=2)) as workers:
        outcome = run(
            study(), store=Store("one.sqlite", create=True), executor=workers, cohort=3, sinks=[watch], progress=False
        )
    assert outcome.ended == {"finished": 4, "diverged": 2}
    assert any(note.startswith("no report from 3 runs of attention") for note in notes), notes


def test_a_killed_worker_is_replaced_and_its_cohort_goes_on_from_its_snapshot(here):
    alone, shared = Store("alone.sqlite", create=True), Store("shared.sqlite", create=True)
    run(study(), store=alone, device="cpu", workers=1, progress=False)
    killed, steps, notes = [], [], []
    with Workers(Resources("cpu", workers=2, checkpoint_every=0.0)) as workers:

        def watch(cohort, event):
            if isinstance(event, Note):
                notes.append(event.text)
            if isinstance(event, Measured):
                steps.append(event.step)
                if event.step == 30 and not killed:
                    worker = next(worker for worker in workers._workers if worker.job and worker.job.runs == cohort)
                    killed.append(worker.process.pid)
                    os.kill(worker.process.pid, signal.SIGKILL)
                    time.sleep(0.1)

        outcome = run(study(), store=shared, executor=workers, cohort=6, sinks=[watch], progress=False)
        pids = {worker.process.pid for worker in workers._workers}
    assert len(killed) == 1
    assert killed[0] not in pids, "replaced"
    assert sum(outcome.ended.values()) == 6
    assert not outcome.failed
    assert_same(alone, shared)
    assert steps.count(10) == 1, "what the snapshot holds is not trained again"
    assert notes == [f"worker process {killed[0]} died (SIGKILL): trying again"]
    assert len(shared.failures()) == 4, "one record for each of its runs: two had ended"
    assert not shared.checkpoints.exists()


class Dying(InProcess):
    """Dies each time it has given its last result."""

    def next(self):
        job, report = super().next()
        return job, Broken("lost", "it died", "") if isinstance(report, Done) else report


def test_a_worker_that_dies_after_its_last_result_costs_nothing(here):
    store = Store("store.sqlite", create=True)
    outcome = run(study(), store=store, executor=Dying(Resources("cpu")), cohort=2, progress=False)
    assert sum(outcome.ended.values()) == 6
    assert store.failures() == []


class Forgetful(InProcess):
    """Says of every cohort with a certain run in it that it is done, before it has begun."""

    def submit(self, job, saved):
        super().submit(job, saved)
        if job.runs[0].train.lr == 1e-2:
            self._reports = iter([Done()])


def test_a_cohort_that_ends_without_its_results_is_reported_as_failed(here):
    store = Store("store.sqlite", create=True)
    outcome = run(study(), store=store, executor=Forgetful(Resources("cpu")), cohort=1, progress=False)
    lost = [one for one in study().runs() if one.train.lr == 1e-2]
    assert lost
    assert sum(outcome.ended.values()) == 6 - len(lost)
    assert set(outcome.failed) == {one.id for one in lost}
    assert "ended without a result" in store.failures()[0].error


DEADLY = """
import os, signal
from torch import nn
class Own(nn.Module):
    def __init__(self, width):
        super().__init__()
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_run_that_kills_its_worker_each_time_is_given_up(here):
    (here / "own.py").write_text(DEADLY)
    store = Store("store.sqlite", create=True)
    asked = study(mixer=["attention", "own.py:Own"])
    asked = asked.changed(train=asked.train | {"lr": 1e-2})
    with Local.start(Resources(device="cpu", workers=2)) as workers:
        outcome = run(asked, store=store, executor=workers, attempts=1, progress=False)
    assert outcome.ended == {"finished": 2}
    assert len(outcome.failed) == 2
    assert all("died (SIGKILL)" in error for error in outcome.failed.values())


BROKEN_GPU = """
from pathlib import Path
from torch import nn
class Own(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Linear(width, width)
    def forward(self, x):
        if not Path("broken").exists():
            Path("broken").touch()
            Own.broken = True
        if hasattr(Own, "broken"):
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return self.mix(x)
"""


def test_a_worker_that_has_lost_its_gpu_is_replaced(here):
    (here / "own.py").write_text(BROKEN_GPU)
    asked = study(mixer="own.py:Own")
    asked = asked.changed(train=asked.train | {"lr": 1e-2})
    with Workers(Resources("cpu", workers=1)) as workers:
        outcome = run(asked, store=Store("store.sqlite", create=True), executor=workers, cohort=2, progress=False)
    assert outcome.ended == {"finished": 2}, "the first process would have failed them all"


def test_code_edited_while_a_study_runs_is_not_kept_under_the_old_name(here):
    store = Store("store.sqlite", create=True)
    asked = study(mixer="own.py:Own")

    def edit(*_):
        (here / "own.py").write_text(OWN + "# edited\n")

    outcome = run(asked, store=store, device="cpu", workers=1, cohort=3, sinks=[edit], progress=False)
    assert sum(outcome.ended.values()) == 3, "the cohort that had begun"
    assert len(outcome.failed) == 3
    assert all("other code here than when the study began" in error for error in outcome.failed.values())


def test_bad_choices_are_refused():
    with pytest.raises(SpecError, match="executor 'lokal': did you mean 'local'"):
        EXECUTORS.find("lokal")
    with pytest.raises(SpecError, match="device 'abacus' cannot be used"):
        Local.start(Resources(device="abacus"))
