"""Two stores into one: nothing lost, nothing twice, and disagreement reported."""

import sqlite3
from contextlib import closing

import pandas as pd
import pytest

from recollect.store.frames import curves_frame, runs_frame, slices_frame
from recollect.store.merge import merge
from recollect.store.store import SCHEMA, Store, StoreBusy, StoreError
from recollect.study.run import run
from recollect.study.spec import Study


def study(name: str, rates: list[float]) -> Study:
    task = {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32}
    train = {"steps": 4, "batch": 4, "eval_every": 2, "eval_rows": 16, "test_rows": 16, "lr": rates}
    return Study(name=name, task=task, model={"width": 16, "layers": 1}, train=train)


def made(path, *studies: Study) -> Store:
    store = Store(path, create=True)
    for one in studies:
        run(one, store=store, device="cpu", workers=1, progress=False)
    return store


@pytest.fixture
def two(tmp_path) -> tuple[Store, Store]:
    here = made(tmp_path / "here.sqlite", study("both", [1e-3, 1e-2]), study("mine", [1e-1]))
    return here, made(tmp_path / "there.sqlite", study("both", [1e-2, 3e-2]), study("theirs", [3e-1, 1e-3]))


def sorted_frames(store: Store) -> list[pd.DataFrame]:
    timings = ["seconds", "ended"]
    frames = runs_frame(store).drop(columns=timings), curves_frame(store), slices_frame(store)
    return [frame.sort_values(list(frame.columns[:3])).reset_index(drop=True) for frame in frames]


def test_every_run_comes_once_with_its_curve_and_slices(two, tmp_path):
    here, there = two
    done = merge(here, [there.path])
    assert (done.added, done.same, done.differing) == (2, 2, {})
    assert done.studies == ["both", "theirs"]
    alone = made(tmp_path / "alone.sqlite", study("all", [1e-3, 1e-2, 1e-1, 3e-2, 3e-1]))
    for merged, whole in zip(sorted_frames(here), sorted_frames(alone), strict=True):
        pd.testing.assert_frame_equal(merged, whole)
    assert list(runs_frame(here, "both")["train.lr"]) == [1e-3, 1e-2, 3e-2]
    assert list(runs_frame(here, "theirs")["train.lr"]) == [3e-1, 1e-3]
    assert here._query("PRAGMA integrity_check") == [("ok",)]


def test_kept_weights_come_along_but_not_those_of_a_result_that_is_left_out(two):
    here, there = two
    ids = list(runs_frame(there)["id"])
    for id in ids:
        there.weights_file(id).parent.mkdir(exist_ok=True)
        there.weights_file(id).write_bytes(id.encode())
    differs = next(id for id in ids if id in set(runs_frame(here)["id"]))
    with closing(sqlite3.connect(here.path)) as db, db:
        db.execute("UPDATE runs SET accuracy = 0.123 WHERE id = ?", (differs,))
    done = merge(here, [there.path])
    assert set(done.differing) == {differs}
    assert done.weights == len(ids) - 1
    assert {id: here.weights_file(id).read_bytes().decode() for id in ids if id != differs} == {
        id: id for id in ids if id != differs
    }
    assert not here.weights_file(differs).exists()
    assert merge(here, [there.path]).weights == 0


def test_merging_again_changes_nothing(two):
    here, there = two
    merge(here, [there.path])
    before = here._query("SELECT * FROM runs"), here.studies()
    again = merge(here, [there.path, there.path])
    assert (again.added, again.same, again.studies) == (0, 8, [])
    assert (here._query("SELECT * FROM runs"), here.studies()) == before


def test_into_a_new_store(two, tmp_path):
    here, there = two
    fresh = Store(tmp_path / "deep" / "fresh.sqlite", create=True)
    assert merge(fresh, [here.path, there.path]).added == 5
    assert run(study("both", [1e-3, 1e-2, 3e-2]), store=fresh, device="cpu", workers=1, progress=False).reused == 3


def test_another_result_for_the_same_run_is_reported_and_the_first_is_kept(two):
    here, there = two
    with closing(sqlite3.connect(there.path)) as db, db:
        db.execute("UPDATE runs SET accuracy = 0.5")
    db.close()
    before = here.accuracies().items()
    done = merge(here, [there.path])
    assert done.same == 0
    assert done.differing == {id: (accuracy, 0.5) for id, accuracy in before if id in Store(there.path).done()}
    assert set(before) <= set(here.accuracies().items())


def test_a_failure_that_another_store_got_past_is_forgotten(two):
    here, there = two
    missing = study("theirs", [3e-1]).runs()[0].id
    with here.writing() as writer:
        writer.add_failure(missing, 1, "RuntimeError: planted", "")
        writer.add_failure("elsewhere", 1, "RuntimeError: planted", "")
    merge(here, [there.path])
    assert [failure.run for failure in here.failures()] == ["elsewhere"]


def test_an_error_in_the_middle_leaves_the_store_as_it_was(two):
    here, there = two
    with closing(sqlite3.connect(there.path)) as db, db:
        db.execute("ALTER TABLE study_runs RENAME COLUMN run TO other")
    db.close()
    before = here._query("SELECT * FROM runs"), here.studies()
    with pytest.raises(StoreError, match=r"cannot merge .*there.sqlite: no such column"):
        merge(here, [there.path])
    assert (here._query("SELECT * FROM runs"), here.studies()) == before


def test_what_cannot_be_merged_is_refused_before_anything_is_written(two, tmp_path):
    here, there = two
    with closing(sqlite3.connect(there.path)) as db, db:
        db.execute("UPDATE meta SET value = ? WHERE key = 'schema'", (str(SCHEMA + 1),))
    db.close()
    before = here.path.read_bytes()
    with pytest.raises(StoreError, match=f"has schema {SCHEMA + 1}"):
        merge(here, [there.path])
    with pytest.raises(StoreError, match="no store at"):
        merge(here, [tmp_path / "absent.sqlite"])
    with pytest.raises(StoreError, match="is the store itself"):
        merge(here, [here.path])
    assert here.path.read_bytes() == before


def test_a_store_in_use_is_not_merged_into(two):
    here, there = two
    with here.writing(), pytest.raises(StoreBusy, match="in use by process"):
        merge(Store(here.path), [there.path])
