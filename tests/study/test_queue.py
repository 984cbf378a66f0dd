"""The order in which cohorts train: with a time limit, those first that bring the most results within it."""

import math
from collections.abc import Callable

import pytest

from recollect.spec import Stopped
from recollect.store.checkpoints import Checkpoints
from recollect.store.store import Store
from recollect.study import trainer
from recollect.study.executors.base import Executor, Job, Resources
from recollect.study.executors.reports import Done, Halted, Report
from recollect.study.queue import in_order, step_seconds
from recollect.study.run import run
from recollect.study.spec import Study
from recollect.study.stop import StopRequest
from recollect.train.events import Ended, Measured, Saved
from recollect.train.spec import RunSpec

SECONDS = {8: 30.0, 16: 20.0, 24: 50.0, 32: 4.0}
"""What each run takes in these tests, by its model's width."""


def study(*widths: int, seeds: tuple[int, ...] = (1, 2)) -> Study:
    task = {"kind": "mqar", "length": 8, "pairs": 1, "vocab": 16}
    train = {"steps": 10, "batch": 4, "seed": list(seeds), "test_rows": 8}
    return Study(name="s", task=task, model={"width": list(widths), "layers": 1}, train=train)


class Clock(Executor):
    """Trains nothing: time passes as the model of each cohort expects, and one that is cut off gives a snapshot of its half."""

    def __init__(self, slots: int = 1):
        super().__init__(Resources(device="cpu"))
        self.now, self.taken, self._slots = 0.0, list[int](), slots
        self.waiting: list[tuple[Job, list[Report]]] = []

    @property
    def slots(self) -> int:
        return self._slots

    def submit(self, job: Job, saved: bytes | None) -> None:
        self.taken.append(job.runs[0].model.width)
        self.now += sum(SECONDS[run.model.width] for run in job.runs) * (0.5 if saved else 1.0)
        if self.stop():
            self.waiting.append((job, [Saved(5, b"half"), Halted()]))
            return
        ended = [Ended(run, "finished", 10, {"accuracy": 0.5}, [], [], 1.0, 100) for run in job.runs]
        self.waiting.append((job, [Measured(10, 10, {}, len(ended)), *ended, Done()]))

    def next(self) -> tuple[Job, Report]:
        job, reports = self.waiting[0]
        report = reports.pop(0)
        if not reports:
            self.waiting.pop(0)
        return job, report

    def close(self) -> None:
        pass


@pytest.fixture
def clock(monkeypatch) -> Callable[..., Clock]:
    """An executor by whose clock time passes, as the cost model foresees it."""

    def start(slots: int = 1) -> Clock:
        found = Clock(slots)
        monkeypatch.setattr("recollect.study.stop.time.monotonic", lambda: found.now)
        return found

    def per_step(runs: list[RunSpec], device: str) -> dict[str, float]:
        return {run.id: SECONDS[run.model.width] / run.train.total_steps for run in runs}

    monkeypatch.setattr(trainer, "step_seconds", per_step)
    return start


def trained(clock: Clock, store: Store, stop_after: float = 0.0, *widths: int) -> list[int]:
    run(study(*widths), store=store, executor=clock, cohort=2, stop_after=stop_after, progress=False)
    return clock.taken


def test_without_a_limit_one_worker_follows_the_study_and_several_take_the_longest_first(clock, tmp_path):
    assert trained(clock(), Store(tmp_path / "a", create=True), 0, 8, 16, 24, 32) == [8, 16, 24, 32]
    assert trained(clock(slots=2), Store(tmp_path / "b", create=True), 0, 8, 16, 24, 32) == [24, 8, 16, 32]


def test_within_a_limit_the_shortest_come_first_and_none_begins_ahead_of_one_that_can_end(clock, tmp_path):
    one, store = clock(), Store(tmp_path / "store", create=True)
    with pytest.raises(Stopped) as stopped:
        trained(one, store, 130, 24, 8, 16, 32)
    assert one.taken == [32, 16, 8, 24], "8, 48 and 108 s are over when each ends"
    assert str(stopped.value) == (
        "stopped after 130 seconds, as requested: 6 runs ended, 2 in training are kept at step 5; "
        "the same command continues from here"
    )


def test_a_cohort_of_many_that_takes_too_long_gives_way_to_one_that_fits(clock, tmp_path):
    one = clock()
    many = study(16, seeds=tuple(range(10)))
    with pytest.raises(Stopped, match=r"2 runs .*, 10 in training are kept at step 5;"):
        run([many.changed(name="m"), study(8)], store=Store(tmp_path / "store", create=True), executor=one, cohort=10,
            stop_after=100, progress=False)  # fmt: skip
    assert one.taken == [8, 16], "200 s for ten runs do not fit into 100, 60 s for two do"


def test_what_has_not_begun_is_not_counted_as_lost(clock, tmp_path):
    counts = ": 2 runs ended, 2 in training are kept at step 5, 2 have not begun; the same command"
    with pytest.raises(Stopped, match=counts):
        trained(clock(), Store(tmp_path / "store", create=True), 30, 8, 16, 32)


def test_of_what_has_a_snapshot_only_the_rest_is_counted(clock, tmp_path):
    found, (first, second) = Checkpoints(tmp_path), study(8).runs()
    found.steps = {first.id: 8}
    asked = trainer.Trainer(None, clock(), found, lambda *_: None, StopRequest())  # pyright: ignore[reportArgumentType]
    asked.seconds = {first.id: 3.0, second.id: 3.0}
    assert [asked.seconds_left(one) for one in (first, second)] == [6, 30]


def test_seconds_are_those_of_the_cost_model():
    fields = {"batch": 512, "precision": "bfloat16", "lr": "logspace(1e-4, 1e-2, 36)"}

    def runs(mixer: str, steps: int = 10_000) -> list[RunSpec]:
        model = {"mixer": mixer, "width": 64, "layers": 2}
        return Study(task="mqar", model=model, train=fields | {"steps": steps}).runs()

    attention, mamba, short = runs("attention"), runs("mamba"), runs("attention", steps=200)
    seconds = step_seconds([*attention, *mamba, *short], "cuda")
    assert 2e-4 < seconds[attention[0].id] < 3e-4, "measured: 0.225 ms per run and step"
    assert seconds[mamba[0].id] > 1.5 * seconds[attention[0].id]
    assert seconds[short[0].id] > seconds[attention[0].id], "too short to be compiled"
    longest = in_order([attention, mamba, short], 2, False, {id: 10_000 * each for id, each in seconds.items()})
    assert longest[0] is mamba


def test_the_time_left_is_infinite_without_a_limit():
    assert StopRequest().left() == math.inf
    assert 599 < StopRequest(600).left() <= 600
