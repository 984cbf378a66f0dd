"""The store: whole results or none, one writer, and a way to tell whose file it is."""

import sqlite3
import subprocess
import sys

import pandas as pd
import pytest

from recollect.study import results
from recollect.study.runner import pack, run_study
from recollect.study.store import SCHEMA, Store, StoreBusy, StoreError
from recollect.study.study import Study


def study(name="s", **train) -> Study:
    task = {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32}
    train = {
        "steps": 10,
        "batch": 8,
        "eval_every": 5,
        "eval_rows": 16,
        "test_rows": 32,
        "lr": [1e-3, 1e-2],
        "seed": [1, 2],
    } | train
    return Study(name=name, task=task, model={"width": 16, "layers": 1}, train=train)


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "here" / "store.sqlite", create=True)


def test_results_are_kept_and_never_trained_twice(store):
    first = run_study(study(), store)
    assert dict(first.ended) == {"finished": 4}
    before = results.runs_frame(store)
    again = run_study(study(), store)
    assert (again.reused, dict(again.ended)) == (4, {})
    larger = run_study(study("larger", lr=[1e-3, 1e-2, 1e-1]), store)
    assert (larger.reused, larger.ended["finished"]) == (4, 2), "another study reuses what it shares"
    pd.testing.assert_frame_equal(results.runs_frame(store, "s"), before)
    assert len(results.runs_frame(store, "larger")) == 6


def test_frames_hold_what_was_measured(store):
    run_study(study(), store)
    runs, curves, slices = (
        results.runs_frame(store, "s"),
        results.curves_frame(store, "s"),
        results.slices_frame(store, "s"),
    )
    assert list(curves.groupby("run")["step"].apply(list)) == [[5, 10]] * 4
    assert {"train_loss", "train_accuracy", "test_loss", "accuracy", "grad_norm", "lr", "examples"} <= set(curves)
    whole = slices[slices["tag"] == "key"].groupby("run")[["right", "count"]].sum()
    share = (whole["right"] / whole["count"])[runs["id"]].to_numpy()
    assert share == pytest.approx(runs["accuracy"].to_numpy())
    assert list(runs["train.lr"]) == [1e-3, 1e-3, 1e-2, 1e-2]
    assert (runs["best_accuracy"] >= runs["accuracy"]).all()


@pytest.mark.parametrize("ending", ["csv", "parquet", "json"])
def test_frames_can_be_written_and_read_again(store, tmp_path, ending):
    run_study(study(), store)
    frame = results.runs_frame(store)
    results.write(frame, tmp_path / f"out.{ending}")
    read = getattr(pd, f"read_{ending}")(tmp_path / f"out.{ending}")
    assert list(read["id"]) == list(frame["id"])
    assert list(read["accuracy"]) == pytest.approx(list(frame["accuracy"]))


def test_a_second_writer_is_told_who_holds_the_store(store):
    with store.writing():
        with pytest.raises(StoreBusy, match="in use by process"), store.writing():
            pass
        code = f"from recollect.study.store import Store\nwith Store({str(store.path)!r}).writing(): pass"
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert "in use by process" in other.stderr
    with store.writing():
        pass


def test_reading_needs_no_lock_and_sees_whole_runs_only(store):
    with store.writing() as writer:
        assert Store(store.path).done() == {}
        writer.add_study("s", "", study().runs())
        assert len(Store(store.path).studies()["s"]) == 4


def test_strange_files_are_refused(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("this is no database, and it is long enough to be looked at as one" * 50)
    with pytest.raises(StoreError, match="not a recollect store"):
        Store(text)
    with pytest.raises(StoreError, match="is a file, not a folder"):
        Store(text / "store.sqlite", create=True)
    with pytest.raises(StoreError, match="no store at"):
        Store(tmp_path / "absent.sqlite")
    with pytest.raises(StoreError, match="it is a folder"):
        Store(tmp_path, create=True)


def test_a_store_of_a_newer_schema_is_refused_untouched(store):
    run_study(study(), store)
    with sqlite3.connect(store.path) as db:
        db.execute("UPDATE meta SET value = ? WHERE key = 'schema'", (str(SCHEMA + 1),))
    db.close()
    before = store.path.read_bytes()
    with pytest.raises(StoreError, match=f"has schema {SCHEMA + 1}.*up to {SCHEMA}"):
        Store(store.path)
    assert store.path.read_bytes() == before


def test_cohorts_hold_one_shape_and_are_even():
    runs = study(lr=[10.0**-k for k in range(1, 7)], batch=[4, 8]).runs()
    cohorts = pack(runs, 5)
    assert sorted(run.id for cohort in cohorts for run in cohort) == sorted(run.id for run in runs)
    assert all(len({run.shape for run in cohort}) == 1 for cohort in cohorts)
    assert [len(cohort) for cohort in cohorts] == [4, 4, 4, 4, 4, 4]


def test_a_failing_run_is_found_in_its_cohort_and_reported_alone(store, monkeypatch):
    from recollect.study import runner

    runs = study().runs()
    true_train = runner.train

    def faulty(members, device):
        if runs[2].id in {run.id for run in members}:
            raise RuntimeError("planted")
        return true_train(members, device)

    monkeypatch.setattr(runner, "train", faulty)
    outcome = run_study(study(), store)
    assert outcome.failed == {runs[2].id: "RuntimeError: planted"}
    assert outcome.ended["finished"] == 3
    attempts = store.query("SELECT run, attempt, traceback FROM failures")
    assert [(run, attempt) for run, attempt, _ in attempts] == [(runs[2].id, 1), (runs[2].id, 2)]
    assert "planted" in attempts[0][2]
    monkeypatch.undo()
    assert run_study(study(), store).ended["finished"] == 1, "the same command tries it again"
    assert store.query("SELECT * FROM failures") == []
