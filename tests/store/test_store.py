"""The store: whole results or none, one writer, and a mark that says whose file it is."""

import math
import sqlite3
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from recollect.spec import SpecError
from recollect.store import frames
from recollect.store.merge import merge
from recollect.store.store import Store, StoreBusy, StoreError
from recollect.study.packing import pack
from recollect.study.run import run
from recollect.study.spec import Study
from recollect.train.events import Ended
from recollect.train.loop import train


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
    first = run(study(), store=store, device="cpu", workers=1, progress=False)
    assert dict(first.ended) == {"finished": 4}
    before = frames.runs_frame(store)
    again = run(study(), store=store, device="cpu", workers=1, progress=False)
    assert (again.reused, dict(again.ended)) == (4, {})
    larger = run(study("larger", lr=[1e-3, 1e-2, 1e-1]), store=store, device="cpu", workers=1, progress=False)
    assert (larger.reused, larger.ended["finished"]) == (4, 2), "another study reuses what it shares"
    pd.testing.assert_frame_equal(frames.runs_frame(store, "s"), before)
    assert len(frames.runs_frame(store, "larger")) == 6


def test_runs_from_before_a_field_existed_compare_with_new_ones(store):
    run(study(), store=store, device="cpu", workers=1, progress=False)
    with sqlite3.connect(store.path) as db:
        db.execute("UPDATE runs SET spec = json_remove(spec, '$.train.z_loss', '$.model.canon')")
    run(study(lr=[1e-3, 1e-2, 1e-1]), store=store, device="cpu", workers=1, progress=False)
    runs = frames.runs_frame(store)
    assert len(runs) == 6
    assert set(runs["train.z_loss"]) == {0.0}
    assert len(set(runs["configuration"])) == 1
    assert frames.varying_fields(runs) == ["train.lr", "train.seed"]


def test_frames_hold_what_was_measured(store):
    run(study(), store=store, device="cpu", workers=1, progress=False)
    runs, curves, slices = (
        frames.runs_frame(store, "s"),
        frames.curves_frame(store, "s"),
        frames.slices_frame(store, "s"),
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
    run(study(), store=store, device="cpu", workers=1, progress=False)
    frame = frames.runs_frame(store)
    frames.write(frame, tmp_path / f"out.{ending}")
    read = getattr(pd, f"read_{ending}")(tmp_path / f"out.{ending}")
    assert list(read["id"]) == list(frame["id"])
    assert list(read["accuracy"]) == pytest.approx(list(frame["accuracy"]))


def test_a_second_writer_gets_an_error_that_names_the_holder(store):
    with store.writing():
        with pytest.raises(StoreBusy, match="in use by process"), store.writing():
            pass
        code = f"from recollect.store.store import Store\nwith Store({str(store.path)!r}).writing(): pass"
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert "in use by process" in other.stderr
    with store.writing():
        pass


def test_what_studies_and_commands_ask_a_store(store):
    assert (store.done(), store.accuracies(), store.failures(), store.studies()) == ({}, {}, [], {}), "not written yet"
    run(study(), store=store, device="cpu", workers=1, progress=False)
    with store.writing() as writer:
        writer.add_study("file", "name: file\n", study().runs()[:1])
        writer.add_failure("lost", 1, "OSError: lost", "Traceback")
        writer.add_failure("lost", 2, "OSError: lost again", "Traceback")
    runs = frames.runs_frame(store)
    assert store.accuracies() == dict(zip(runs["id"], runs["accuracy"], strict=True))
    assert [(failure.run, failure.attempt, failure.error) for failure in store.failures()] == [
        ("lost", 1, "OSError: lost"),
        ("lost", 2, "OSError: lost again"),
    ]
    assert store.failures()[0].when.endswith("UTC")
    newest = store.recent(2)
    assert [record.id for record in newest] == list(runs["id"])[:1:-1]
    assert (newest[0].run.id, newest[0].model, newest[0].device) == (newest[0].id, "attention", "cpu")
    assert newest[0].final["accuracy"] == runs["accuracy"].iloc[-1]
    assert [record.id for record in store.find(runs["id"][0][:10])] == [runs["id"][0]]
    assert store.study_source("file") == "name: file\n"
    with pytest.raises(StoreError, match=r"no study 'fil'.*did you mean 'file'.*file, s"):
        store.study_source("fil")
    assert list(frames.curves_frame(store, runs=[runs["id"][0]])["step"]) == [5, 10]
    slices = frames.slices_frame(store, runs=[runs["id"][0]])
    gap = slices.loc[slices["tag"] == "gap"]
    assert (set(gap["step"]), gap["count"].sum()) == ({10}, 64)


def test_a_run_that_diverged_unmeasured_has_no_accuracy(store):
    run(study(lr=[1e30], seed=[1]), store=store, device="cpu", workers=1, progress=False)
    (accuracy,) = store.accuracies().values()
    frame = frames.runs_frame(store)
    assert math.isnan(accuracy) or frame["accuracy"].item() == accuracy
    assert frame["accuracy"].dtype == float


def test_the_size_of_the_state_is_a_column(store, tmp_path):
    (ended,) = [event for event in train(study(lr=[1e-3], seed=[1]).runs()) if isinstance(event, Ended)]
    ended.state_size = 512
    with store.writing() as writer:
        writer.add_results([ended], "cpu")
    assert list(frames.runs_frame(store)["state_size"]) == [512]
    other = Store(tmp_path / "other.sqlite", create=True)
    merge(other, [store.path])
    assert list(frames.runs_frame(other)["state_size"]) == [512]


def test_the_fields_in_which_runs_differ(store):
    run(study(batch=[4, 8]), store=store, device="cpu", workers=1, progress=False)
    frame = frames.runs_frame(store, "s", columns="varying")
    assert list(frame) == [
        "id", "configuration", "train.lr", "train.seed", "train.batch", "status", "step", "accuracy", "best_accuracy",
        "state_size", "parameters", "seconds",
    ]  # fmt: skip
    whole = frames.runs_frame(store, "s")
    pd.testing.assert_frame_equal(frame, whole[list(frame)])
    alone = frames.runs_frame(store, "s", columns="varying").drop(columns="train.batch")
    run(study("one", batch=8, lr=1e-3, seed=1), store=store, device="cpu", workers=1, progress=False)
    assert list(frames.runs_frame(store, "one", columns="varying")) == list(alone)
    assert list(frames.runs_frame(Store(store.path), "one")) == list(whole)
    with pytest.raises(SpecError, match="columns 'some': choose from: all, varying"):
        frames.runs_frame(store, "s", columns="some")


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


def test_cohorts_hold_one_shape_and_are_even():
    runs = study(lr=[10.0**-k for k in range(1, 7)], batch=[4, 8]).runs()
    cohorts = pack(runs, 5)
    assert sorted(run.id for cohort in cohorts for run in cohort) == sorted(run.id for run in runs)
    assert all(len({run.shape for run in cohort}) == 1 for cohort in cohorts)
    assert [len(cohort) for cohort in cohorts] == [4, 4, 4, 4, 4, 4]


@pytest.mark.parametrize(
    ("mounts", "mode"),
    [
        ("/dev/sda1 / ext4 rw 0 0\nserver:/home {here} nfs4 rw 0 0\n", "delete"),
        ("//server/share {here} cifs rw 0 0\n/dev/sda1 / ext4 rw 0 0\n", "delete"),
        ("server:/ / nfs rw 0 0\n/dev/sda1 {here} ext4 rw 0 0\n", "wal"),
        ("", "wal"),
    ],
    ids=["nfs", "cifs", "a disk under nfs", "unknown"],
)
def test_on_a_network_file_system_the_store_has_a_rollback_journal(tmp_path, monkeypatch, mounts, mode):
    read = Path.read_text

    def read_text(path, *rest):
        return mounts.format(here=tmp_path) if str(path) == "/proc/mounts" else read(path, *rest)

    monkeypatch.setattr(Path, "read_text", read_text)
    store = Store(tmp_path / "store.sqlite", create=True)
    with store.writing() as writer:
        assert writer._connection.execute("PRAGMA journal_mode").fetchone() == (mode,)
    assert run(study(), store=store, device="cpu", workers=1, progress=False).ended["finished"] == 4
    assert len(frames.runs_frame(store)) == 4


def test_a_store_whose_creation_was_cut_short_is_made_again(store):
    store.path.parent.mkdir()
    store.path.with_name("store.sqlite.draft").write_bytes(b"SQLite format 3 and then the power went")
    store.path.touch()
    assert Store(store.path).done() == {}
    assert run(study(), store=store, device="cpu", workers=1, progress=False).ended["finished"] == 4
    assert {path.name for path in store.path.parent.iterdir()} <= {"store.sqlite", "store.sqlite.lock"}


def test_a_study_runs_from_python(tmp_path):
    from recollect import Study as PublicStudy

    ran = PublicStudy(**study().model_dump()).run(device="cpu", store=tmp_path / "s.sqlite")
    assert list(ran.results()["train.lr"]) == [1e-3, 1e-3, 1e-2, 1e-2]
    assert len(ran.curves()) == 8
    assert set(ran.slices()["tag"]) >= {"gap", "key"}
    assert ran.failed == {}


def test_configurations_are_distinguished_by_what_differs_among_runs_of_one_model(store):
    task = {"kind": "mqar", "length": 16, "pairs": [1, 2], "vocab": 32}
    model = [{"mixer": "attention", "layers": 2}, {"mixer": {"kind": "attention", "conv": "k"}, "layers": 1}]
    train = {"steps": 2, "batch": 4, "lr": [1e-3, 1e-2], "test_rows": 8, "eval_rows": 8}
    run(Study(name="s", task=task, model=model, train=train), store=store, device="cpu", workers=1, progress=False)
    names = list(dict.fromkeys(frames.runs_frame(store)["configuration"]))
    assert sorted(names) == [
        "attention(conv=k), pairs=1", "attention(conv=k), pairs=2", "attention, pairs=1", "attention, pairs=2",
    ]  # fmt: skip
