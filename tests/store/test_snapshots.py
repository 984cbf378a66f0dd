"""Snapshots of embeddings in a store: written, read, merged, and absent from older stores."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest

from recollect.store import frames
from recollect.store.merge import merge
from recollect.store.store import Store
from recollect.study.run import run
from recollect.study.spec import Study


def study(name: str, rates: list[float], snapshots: int = 2) -> Study:
    task = {"kind": "position", "length": 6}
    train = {
        "steps": 8,
        "batch": 4,
        "eval_every": 4,
        "eval_rows": 8,
        "test_rows": 8,
        "lr": rates,
        "snapshots": snapshots,
    }
    return Study(name=name, task=task, model={"width": 8, "layers": 1, "tie": False}, train=train)


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "store.sqlite", create=True)


def test_a_frame_of_arrays(store):
    run(study("s", [1e-3, 1e-2]), store=store, device="cpu", workers=1, progress=False)
    run(study("none", [1e-3], snapshots=0), store=store, device="cpu", workers=1, progress=False)
    frame = frames.snapshots_frame(store, "s")
    assert list(frame["share"]) == [0.5, 1.0, 0.5, 1.0]
    assert list(frame["step"]) == [4, 8, 4, 8]
    assert set(frame["run"]) == set(frames.runs_frame(store, "s")["id"])
    assert all(array.shape == (6, 8) and array.dtype == np.float32 for array in [*frame["input"], *frame["output"]])
    assert not np.array_equal(frame["input"][0], frame["input"][1])
    assert frames.snapshots_frame(store, "none").empty
    assert list(frames.snapshots_frame(store, "none")) == list(frame)
    assert len(frames.snapshots_frame(store)) == 4


def test_they_come_along_when_stores_are_merged(store, tmp_path):
    run(study("s", [1e-3]), store=store, device="cpu", workers=1, progress=False)
    other = Store(tmp_path / "other.sqlite", create=True)
    run(study("s", [1e-3, 1e-2]), store=other, device="cpu", workers=1, progress=False)
    merge(store, [other.path])
    ours, theirs = (frames.snapshots_frame(s, "s").set_index(["run", "share"])["input"] for s in (store, other))
    assert list(ours.index) == list(theirs.index)
    assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_a_store_of_the_first_schema_gets_its_table(store):
    run(study("s", [1e-3], snapshots=0), store=store, device="cpu", workers=1, progress=False)
    with closing(sqlite3.connect(store.path)) as db, db:
        for table in ("snapshots", "training", "training_points", "failed"):
            db.execute(f"DROP TABLE {table}")
        for table, column in (
            ("runs", "state_size"),
            ("runs", "semantics"),
            ("study_runs", "label"),
            ("study_runs", "steps"),
        ):
            db.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        db.execute("UPDATE meta SET value = '1' WHERE key = 'schema'")
    again = Store(store.path)
    assert frames.snapshots_frame(again).empty
    run(study("more", [1e-3]), store=again, device="cpu", workers=1, progress=False)
    assert len(frames.snapshots_frame(again, "more")) == 2
    assert len(frames.runs_frame(again)) == 2
