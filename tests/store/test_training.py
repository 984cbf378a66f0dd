"""Runs in training: what is measured of them enters the store as it comes, and gives way to their results."""

import sqlite3
import time
from contextlib import closing

import pytest

from recollect.spec import Stopped
from recollect.store import frames, writer
from recollect.store.merge import merge
from recollect.store.progress import progress
from recollect.store.store import Store
from recollect.study.run import run
from recollect.study.spec import Study
from recollect.train.events import Ended, Measured
from recollect.train.loop import train


def study(name="s", **train) -> Study:
    task = {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32}
    train = {"steps": 10, "batch": 8, "eval_every": 2, "eval_rows": 16, "test_rows": 32, "lr": [1e-3, 1e-2]} | train
    return Study(name=name, task=task, model={"width": 16, "layers": 1}, train=train)


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "store.sqlite", create=True)


def stopped_after(store: Store, measurements: int, **options) -> None:
    """Train the study until it has been measured so often, then kill the process, as far as the store can see."""

    def watch(cohort, event):
        nonlocal measurements
        if isinstance(event, Measured):
            measurements -= 1
            if measurements < 0:
                raise KeyboardInterrupt

    with pytest.raises((KeyboardInterrupt, Stopped)):
        run(study(**options), store=store, device="cpu", workers=1, progress=False, sinks=[watch])


def test_what_was_measured_is_there_before_a_run_ends_and_is_no_result(store):
    stopped_after(store, 3)
    assert store.done() == {}
    assert frames.runs_frame(store, "s").empty
    assert frames.curves_frame(store, "s").empty
    curves = frames.curves_frame(store, "s", unfinished=True)
    assert list(curves.groupby("run")["step"].apply(list)) == [[2, 4, 6]] * 2
    runs = frames.runs_frame(store, "s", unfinished=True)
    assert list(runs["status"]) == ["training"] * 2
    assert list(runs["train.lr"]) == [1e-3, 1e-2]
    last = curves[curves["step"] == 6].set_index("run")["accuracy"]
    assert list(runs["accuracy"]) == list(last[runs["id"]])
    assert list(runs["best_accuracy"]) == list(curves.groupby("run")["accuracy"].max()[runs["id"]])


def test_a_run_that_goes_on_does_not_double_its_points_and_reads_as_any_other_when_it_ended(store, tmp_path):
    other = Store(tmp_path / "other.sqlite", create=True)
    run(study(), store=other, device="cpu", workers=1, progress=False)
    stopped_after(store, 4)  # a snapshot was taken
    stopped_after(store, 1)
    stored = frames.curves_frame(store, unfinished=True)
    assert not stored.duplicated(["run", "step"]).any()
    run(study(), store=store, device="cpu", workers=1, progress=False)
    for frame in (frames.curves_frame, frames.slices_frame):
        assert frame(store, "s").equals(frame(other, "s"))
        assert frames.curves_frame(store, unfinished=True).equals(frames.curves_frame(store))
    with closing(sqlite3.connect(store.path)) as db:
        assert db.execute(
            "SELECT (SELECT count(*) FROM training), (SELECT count(*) FROM training_points)"
        ).fetchall() == [(0, 0)]


def test_a_run_that_starts_anew_loses_its_old_points(store):
    runs = study().runs()
    events = [event for event in train(runs) if isinstance(event, Measured)]
    with store.writing() as open_store:
        open_store.add_study("s", study().to_yaml(), runs)
        for event in events[:4]:
            open_store.add_measured(runs, event)
    with store.writing() as open_store:
        for event in [*events[:3], *events[:2]]:  # started anew twice
            open_store.add_measured(runs, event)
    assert sorted(frames.curves_frame(store, "s", unfinished=True)["step"]) == [2, 2, 4, 4]


def test_measurements_are_readable_within_seconds_while_the_store_is_held(store):
    runs = study().runs()
    event = next(event for event in train(runs) if isinstance(event, Measured))
    with store.writing() as open_store:
        open_store.add_measured(runs, event)
        until = time.monotonic() + 10
        while (found := frames.curves_frame(store, unfinished=True)).empty and time.monotonic() < until:
            time.sleep(0.05)
        assert len(found) == 2


def test_a_measurement_that_cannot_be_written_is_tried_again_and_stops_nothing(store, monkeypatch):
    monkeypatch.setattr(writer, "INTERVAL", 0.02)
    runs = study().runs()
    event = next(event for event in train(runs) if isinstance(event, Measured))
    with store.writing() as open_store, closing(sqlite3.connect(store.path)) as db:
        db.execute("ALTER TABLE training RENAME TO away")
        open_store.add_measured(runs, event)
        time.sleep(0.1)
        db.execute("ALTER TABLE away RENAME TO training")
    assert len(frames.curves_frame(store, unfinished=True)) == 2


def test_progress_counts_runs_and_steps_by_configuration(store):
    two = study(lr=[1e-3, 1e-2]).changed(model={"mixer": ["attention", "base_conv"], "width": 16, "layers": 1})
    runs = two.runs()
    with store.writing() as open_store:
        open_store.add_study("s", two.to_yaml(), runs)
        events = list(train(runs[:2]))
        for event in events:
            if isinstance(event, Measured):
                open_store.add_measured(runs[:2], event)
        open_store.add_results([event for event in events if isinstance(event, Ended)][:1], "cpu")
        open_store.add_failure(runs[2].id, 1, "error", "")
    first, second = progress(store, "s")
    assert (first.configuration, first.runs, first.ended, first.begun, first.left) == ("attention", 2, 1, 1, 1)
    assert (first.steps, first.steps_done, first.failed) == (20, 20, 0)
    best = max(event.accuracy[run.id] for event in events if isinstance(event, Measured) for run in runs[:2])
    assert first.best_accuracy >= best
    assert first.best_lr in (1e-3, 1e-2)
    assert (second.configuration, second.runs, second.ended, second.begun, second.steps_done) == (
        "base_conv",
        2,
        0,
        0,
        0,
    )
    assert (second.failed, second.best_accuracy, second.best_lr) == (1, None, None)
    assert progress(store) == [first, second]


def test_a_merged_result_replaces_what_was_measured_here(store, tmp_path):
    other = Store(tmp_path / "other.sqlite", create=True)
    run(study(), store=other, device="cpu", workers=1, progress=False)
    stopped_after(store, 2)
    assert merge(store, [other.path]).added == 2
    assert frames.curves_frame(store, unfinished=True).equals(frames.curves_frame(other))
    assert [part.begun for part in progress(store, "s")] == [0]
