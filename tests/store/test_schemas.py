"""Stores of other versions: older ones are read as they are and brought up to date by writing, newer ones are refused."""

import math
import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from recollect.store import frames
from recollect.store import store as store_module
from recollect.store.merge import merge
from recollect.store.store import SCHEMA, Store, StoreError
from recollect.study.run import run
from recollect.study.spec import Study

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
RUN = "0123456789abcdef"


def study() -> Study:
    task = {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32}
    train = {"steps": 2, "batch": 4, "eval_rows": 8, "test_rows": 8, "lr": [1e-3, 1e-2]}
    return Study(name="s", task=task, model={"width": 16, "layers": 1}, train=train)


def raw(path: Path, sql: str) -> list[tuple]:
    """What the file itself has."""
    with closing(sqlite3.connect(path)) as db:
        return db.execute(sql).fetchall()


@pytest.fixture
def old(tmp_path) -> Path:
    with closing(sqlite3.connect(tmp_path / "old.sqlite")) as db:
        db.executescript(SCHEMA_1)
    return tmp_path / "old.sqlite"


def test_a_store_of_the_first_version_opens_and_goes_on(old):
    store = Store(old)
    assert store.studies() == {"old": [RUN]}
    (row,) = frames.runs_frame(store, "old").to_dict("records")
    assert (row["accuracy"], row["final.loss"], row["train.lr"]) == (0.5, 1.5, 0.01)
    assert raw(old, "SELECT value FROM meta WHERE key = 'schema'") == [("1",)], "reading changes nothing"
    assert run(study(), store=store, device="cpu", workers=1, progress=False).ended["finished"] == 2
    assert len(frames.runs_frame(store)) == 3


@pytest.fixture
def later(monkeypatch) -> None:
    """Two schemas after this one."""
    added = {SCHEMA: "ALTER TABLE runs ADD COLUMN host TEXT", SCHEMA + 1: "UPDATE runs SET host = 'unknown'"}
    read = {SCHEMA: "SELECT 1", SCHEMA + 1: "SELECT 1"}
    monkeypatch.setattr(store_module, "SCHEMA", SCHEMA + 2)
    monkeypatch.setattr(store_module, "MIGRATIONS", store_module.MIGRATIONS | added)
    monkeypatch.setattr(store_module, "READ_AS_NEXT", store_module.READ_AS_NEXT | read)


def test_a_store_of_an_older_schema_is_brought_up_to_date_when_it_is_written_to(old, later):
    store = Store(old)
    assert raw(old, "SELECT value FROM meta WHERE key = 'schema'") == [("1",)]
    for _ in range(2):  # and only once
        with store.writing():
            pass
        assert raw(old, "SELECT value FROM meta WHERE key = 'schema'") == [(str(SCHEMA + 2),)]
        assert raw(old, "SELECT id, host FROM runs") == [(RUN, "unknown")]


def test_a_migration_that_fails_leaves_the_store_as_it_was(old, later, monkeypatch):
    broken = {SCHEMA: "ALTER TABLE runs ADD COLUMN host TEXT; UPDATE absent SET x = 1"}
    monkeypatch.setattr(store_module, "MIGRATIONS", store_module.MIGRATIONS | broken)
    with pytest.raises(StoreError, match="no such table: absent"), Store(old).writing():
        pass
    monkeypatch.undo()
    assert raw(old, "SELECT value FROM meta WHERE key = 'schema'") == [(str(SCHEMA),)], "the steps before it are done"
    assert "host" not in [name for _, name, *_ in raw(old, "PRAGMA table_info(runs)")]
    assert len(frames.runs_frame(Store(old))) == 1


def test_every_older_schema_has_a_way_to_this_one_and_can_be_read():
    assert list(store_module.MIGRATIONS) == list(store_module.READ_AS_NEXT) == list(range(1, SCHEMA))


@pytest.fixture
def locked(old):
    """A store of the first version, as a write-ahead log leaves it, in a folder in which this process may write nothing."""
    with closing(sqlite3.connect(old)) as db:
        db.execute("PRAGMA journal_mode = WAL")
    folder = Path(tempfile.mkdtemp())  # pytest's own folders are closed to other users
    path = Path(shutil.copy(old, folder))
    path.chmod(0o444)
    folder.chmod(0o555)
    root = os.geteuid() == 0
    if root:  # who may write anywhere
        os.seteuid(65534)
    yield path
    if root:
        os.seteuid(0)
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_store_that_cannot_be_written_can_be_read(locked):
    store = Store(locked)
    assert store.done() == {RUN: "finished"}
    (row,) = frames.runs_frame(store, "old", columns="varying").to_dict("records")
    assert row["accuracy"] == 0.5
    assert math.isnan(row["state_size"])
    assert len(frames.curves_frame(store, "old")) == 1
    assert frames.snapshots_frame(store, "old").empty
    with pytest.raises(StoreError, match="cannot lock"), store.writing():
        pass
    with tempfile.TemporaryDirectory() as folder:
        assert merge(Store(Path(folder) / "new.sqlite", create=True), [locked]).added == 1
    assert [path.name for path in locked.parent.iterdir()] == ["old.sqlite"]


def test_a_store_of_the_first_version_is_merged_and_left_as_it_was(old, tmp_path):
    before = old.read_bytes()
    store = Store(tmp_path / "store.sqlite", create=True)
    run(study(), store=store, device="cpu", workers=1, progress=False)
    merged = merge(store, [old])
    assert (merged.added, merged.studies) == (1, ["old"])
    (row,) = frames.runs_frame(store, "old").to_dict("records")
    assert (row["id"], row["accuracy"], row["parameters"]) == (RUN, 0.5, 1234)
    assert math.isnan(row["state_size"])
    assert old.read_bytes() == before


def test_a_store_of_a_newer_schema_is_refused_untouched(old):
    with closing(sqlite3.connect(old)) as db, db:
        db.execute("UPDATE meta SET value = ? WHERE key = 'schema'", (str(SCHEMA + 1),))
    before = old.read_bytes()
    with pytest.raises(StoreError, match=f"has schema {SCHEMA + 1}.*up to {SCHEMA}"):
        Store(old)
    assert old.read_bytes() == before
