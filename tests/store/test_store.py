"""The store: whole results or none, one writer, and a way to tell whose file it is."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

from recollect.store import frames
from recollect.store import store as store_module
from recollect.store.store import SCHEMA, Store, StoreBusy, StoreError
from recollect.study.run import run
from recollect.study.spec import Study
from recollect.study.trainer import pack


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


def test_a_second_writer_is_told_who_holds_the_store(store):
    with store.writing():
        with pytest.raises(StoreBusy, match="in use by process"), store.writing():
            pass
        code = f"from recollect.store.store import Store\nwith Store({str(store.path)!r}).writing(): pass"
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
    run(study(), store=store, device="cpu", workers=1, progress=False)
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


SCHEMA_1 = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE studies (name TEXT PRIMARY KEY, source TEXT NOT NULL);
CREATE TABLE study_runs (study TEXT, place INTEGER, run TEXT, PRIMARY KEY (study, place));
CREATE TABLE runs (id TEXT PRIMARY KEY, spec TEXT NOT NULL, model TEXT NOT NULL, status TEXT NOT NULL, step INTEGER NOT NULL,
    accuracy REAL, best_accuracy REAL, best_step INTEGER, final TEXT NOT NULL, parameters INTEGER NOT NULL,
    seconds REAL NOT NULL, device TEXT NOT NULL, versions TEXT NOT NULL, notes TEXT NOT NULL, ended TEXT NOT NULL);
CREATE TABLE points (run TEXT, step INTEGER, data TEXT NOT NULL, PRIMARY KEY (run, step)) WITHOUT ROWID;
CREATE TABLE slices (run TEXT, step INTEGER, tag TEXT, data TEXT NOT NULL, PRIMARY KEY (run, step, tag)) WITHOUT ROWID;
CREATE TABLE failures (run TEXT, attempt INTEGER, error TEXT NOT NULL, traceback TEXT NOT NULL, time TEXT NOT NULL);
INSERT INTO meta VALUES ('schema', '1'), ('written by', 'recollect 0.1.0');
INSERT INTO studies VALUES ('old', 'name: old');
INSERT INTO study_runs VALUES ('old', 0, '0123456789abcdef');
INSERT INTO runs VALUES ('0123456789abcdef', '{"task": {"kind": "mqar"}, "model": {"width": 16}, "train": {"lr": 0.01}}',
    'attention', 'finished', 10, 0.5, 0.75, 5, '{"accuracy": 0.5, "loss": 1.5}', 1234, 0.1, 'cpu', '{}', '[]', 'then');
INSERT INTO points VALUES ('0123456789abcdef', 10, '{"step": 10, "accuracy": 0.5}');
"""
"""A store as the first version wrote it: what later versions must open."""


@pytest.fixture
def old(tmp_path) -> Path:
    with closing(sqlite3.connect(tmp_path / "old.sqlite")) as db:
        db.executescript(SCHEMA_1)
    return tmp_path / "old.sqlite"


def test_a_store_of_the_first_version_opens_and_goes_on(old):
    store = Store(old)
    assert store.studies() == {"old": ["0123456789abcdef"]}
    (row,) = frames.runs_frame(store, "old").to_dict("records")
    assert (row["accuracy"], row["final.loss"], row["train.lr"]) == (0.5, 1.5, 0.01)
    assert run(study(), store=store, device="cpu", workers=1, progress=False).ended["finished"] == 4
    assert len(frames.runs_frame(store)) == 5


def test_a_store_of_an_older_schema_is_brought_up_to_date_when_it_is_opened(old, monkeypatch):
    monkeypatch.setattr(store_module, "SCHEMA", SCHEMA + 2)
    added = {SCHEMA: "ALTER TABLE runs ADD COLUMN host TEXT", SCHEMA + 1: "UPDATE runs SET host = 'unknown'"}
    monkeypatch.setattr(store_module, "MIGRATIONS", store_module.MIGRATIONS | added)
    store = Store(old)
    assert store.query("SELECT value FROM meta WHERE key = 'schema'") == [(str(SCHEMA + 2),)]
    assert store.query("SELECT id, host FROM runs") == [("0123456789abcdef", "unknown")]
    Store(old)  # and only once


def test_a_migration_that_fails_leaves_the_store_as_it_was(old, monkeypatch):
    monkeypatch.setattr(store_module, "SCHEMA", SCHEMA + 1)
    broken = {SCHEMA: "ALTER TABLE runs ADD COLUMN host TEXT; UPDATE absent SET x = 1"}
    monkeypatch.setattr(store_module, "MIGRATIONS", store_module.MIGRATIONS | broken)
    with pytest.raises(StoreError, match="no such table: absent"):
        Store(old)
    monkeypatch.undo()
    assert len(Store(old).query("SELECT * FROM runs")[0]) == 15


def test_every_older_schema_has_a_way_to_this_one():
    assert list(store_module.MIGRATIONS) == list(range(1, SCHEMA))


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


def test_configurations_are_told_apart_by_what_differs_among_runs_of_one_model(store):
    task = {"kind": "mqar", "length": 16, "pairs": [1, 2], "vocab": 32}
    model = [{"mixer": "attention", "layers": 2}, {"mixer": {"kind": "attention", "conv": "k"}, "layers": 1}]
    train = {"steps": 2, "batch": 4, "lr": [1e-3, 1e-2], "test_rows": 8, "eval_rows": 8}
    run(Study(name="s", task=task, model=model, train=train), store=store, device="cpu", workers=1, progress=False)
    names = list(dict.fromkeys(frames.runs_frame(store)["configuration"]))
    assert sorted(names) == [
        "attention(conv=k), pairs=1", "attention(conv=k), pairs=2", "attention, pairs=1", "attention, pairs=2",
    ]  # fmt: skip
