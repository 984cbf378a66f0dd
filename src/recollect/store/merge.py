"""Two stores into one: runs are known by their identity, so one that both have is kept once. Saved weights are copied."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from recollect.store.files import StoreError, write_errors, write_whole
from recollect.store.store import Store, read_only

RESULT = ("status", "step", "accuracy", "best_accuracy", "best_step", "final")
"""Columns of a run that say what came out; the others say when, where and how fast."""


@dataclass
class Merged:
    """What a merge did."""

    added: int = 0
    """Runs that are new here."""
    same: int = 0
    """Runs that were here with the same result."""
    differing: dict[str, tuple[float | None, float | None]] = field(default_factory=dict)
    """Runs that were here with another result, which is kept: the accuracy here, and the one left out."""
    weights: int = 0
    """Trained models that are new here."""
    studies: list[str] = field(default_factory=list)
    """Studies that are new here or got runs."""


def merge(here: Store, others: list[Path]) -> Merged:
    """Copy what other stores have into one; each is copied whole or not at all."""
    stores = [Store(path) for path in others]  # refuses what cannot be read before anything is written
    for other in stores:
        if here.path.exists() and other.path.resolve() == here.path.resolve():
            raise StoreError(f"{other.path} is the store itself; name another to merge into it")
    merged = Merged()
    with here.writing(), closing(sqlite3.connect(here.path.resolve(), isolation_level=None, uri=True)) as db:
        for other in stores:
            with _attached(db, other.path):
                _merge_runs(db, merged)
                _merge_studies(db, merged)
                _merge_weights(here, other, merged)
    return merged


@contextmanager
def _attached(db: sqlite3.Connection, path: Path) -> Iterator[None]:
    """Another store as the schema `other`, inside one transaction."""
    try:
        db.execute("ATTACH ? AS other", (read_only(path),))
        try:
            db.execute("BEGIN IMMEDIATE")
            yield
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        finally:
            db.execute("DETACH other")
    except (sqlite3.Error, ValueError, TypeError) as error:
        raise StoreError(f"cannot merge {path}: {error}") from None


def _merge_runs(db: sqlite3.Connection, merged: Merged) -> None:
    columns = ", ".join(f"{side}.{name}" for name in RESULT for side in ("mine", "theirs"))
    both = db.execute(f"SELECT mine.id, {columns} FROM main.runs mine JOIN other.runs theirs ON mine.id = theirs.id")
    for id, *values in both.fetchall():
        mine, theirs = (dict(zip(RESULT, values[side::2], strict=True)) for side in (0, 1))
        if {**mine, "final": json.loads(mine["final"])} == {**theirs, "final": json.loads(theirs["final"])}:
            merged.same += 1
        else:
            merged.differing[id] = mine["accuracy"], theirs["accuracy"]
    new = "SELECT id FROM other.runs WHERE id NOT IN (SELECT id FROM main.runs)"
    db.execute(f"CREATE TEMP TABLE coming AS {new}")
    for table, key in (("points", "run"), ("slices", "run"), ("snapshots", "run"), ("runs", "id")):
        _copy(db, table, f"{key} IN (SELECT id FROM coming)")
    merged.added += db.execute("SELECT count(*) FROM coming").fetchone()[0]
    db.execute("DROP TABLE temp.coming")
    for table in ("failures", "failed", "training", "training_points"):
        db.execute(f"DELETE FROM main.{table} WHERE run IN (SELECT id FROM main.runs)")
    for table in ("failures", "failed"):
        _copy(db, table, f"run NOT IN (SELECT id FROM main.runs) AND run NOT IN (SELECT run FROM main.{table})")


def _copy(db: sqlite3.Connection, table: str, which: str) -> None:
    """Copy rows of a table, by the names of the columns that both stores have: the other may be of an older schema."""
    mine, theirs = ([row[1] for row in db.execute(f"PRAGMA {side}.table_info({table})")] for side in ("main", "other"))
    if names := ", ".join(name for name in mine if name in theirs):
        db.execute(f"INSERT INTO main.{table} ({names}) SELECT {names} FROM other.{table} WHERE {which}")


def _merge_studies(db: sqlite3.Connection, merged: Merged) -> None:
    """Studies of one name become one: the runs of both, those of this store first."""
    labelled = any(row[1] == "label" for row in db.execute("PRAGMA other.table_info(study_runs)"))
    about = "run, label, steps" if labelled else "run, NULL, NULL"  # older schemas do not have them
    for name, source in db.execute("SELECT name, source FROM other.studies ORDER BY rowid").fetchall():
        fresh = db.execute("INSERT OR IGNORE INTO main.studies VALUES (?, ?)", (name, source)).rowcount
        last = "SELECT coalesce(max(place), -1) FROM main.study_runs WHERE study = :study"
        known = "SELECT run FROM main.study_runs WHERE study = :study"
        new = db.execute(
            f"INSERT INTO main.study_runs SELECT study, ({last}) + row_number() OVER (ORDER BY place), {about} "
            f"FROM other.study_runs WHERE study = :study AND run NOT IN ({known})",
            {"study": name},
        ).rowcount
        if fresh or new:
            merged.studies.append(name)


def _merge_weights(here: Store, other: Store, merged: Merged) -> None:
    """Copy weights that were kept beside the other store, except for runs whose other result is kept here."""
    for theirs in sorted(other.weights.glob("*.safetensors")):
        if theirs.is_symlink() or not theirs.is_file():  # it may lead anywhere
            continue
        mine = here.weights_file(theirs.stem)
        if theirs.stem not in merged.differing and not mine.exists():
            with write_errors(here.weights):
                write_whole(mine, theirs.read_bytes())
            merged.weights += 1
