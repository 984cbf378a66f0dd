"""New stores from old ones, which stay as they are: a copy at one moment, and what can be saved of a damaged store."""

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors.numpy
from safetensors import SafetensorError

from recollect.spec.imports import is_file
from recollect.store.files import StoreError, read_errors, write_errors
from recollect.store.frames import specification_of
from recollect.store.opening import read_only
from recollect.store.records import check_provenance, measures
from recollect.store.store import Store

Row = dict[str, Any]
_KINDS: dict[str, tuple[type, ...]] = {"TEXT": (str,), "INTEGER": (int,), "REAL": (int, float), "BLOB": (bytes,)}
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError)


@dataclass
class Saved:
    """What was saved."""

    runs: int = 0
    studies: int = 0
    lost: list[str] = field(default_factory=list)
    """Runs that had ended and whose row cannot be read."""
    partly: list[str] = field(default_factory=list)
    """Runs that were saved without some of their measurements."""


def backup(path: str | Path, to: str | Path) -> Path:
    """Copy a store to a new file by SQLite's online backup: all of it as it is at one moment, while others read and write."""
    store, to = Store(path), new_file(to)
    draft = to.with_name(to.name + ".draft")
    try:
        address = read_only(store.path)
        with closing(sqlite3.connect(address, uri=True)) as source, closing(sqlite3.connect(draft)) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, which can be read anywhere
        Store(draft)  # refuses what is not a whole store
        with write_errors(to):
            draft.replace(to)
    except sqlite3.Error as error:
        raise StoreError(f"cannot copy {store.path} to {to}: {error}") from None
    finally:
        draft.unlink(missing_ok=True)
    return to


def new_file(path: str | Path) -> Path:
    """The place of a file that is not there yet, in a folder that is."""
    path = Path(path)
    with write_errors(path):
        if path.exists() or path.is_symlink():
            raise StoreError(f"{path} is there already; name a new file with --to")
        if not path.parent.is_dir():
            raise StoreError(f"cannot write {path}: there is no folder {path.parent}")
        return path.resolve()


def repair(path: str | Path, to: str | Path) -> Saved:
    """Write what can be read of a store to a new one. Runs whose row is whole are saved, with what can be read of their curves;
    the others are trained again by the same study."""
    path, to = Path(path), new_file(to)
    if not is_file(path):
        Store(path)  # says why not
    new = Store(to.with_name(to.name + ".draft"), create=True)
    new.path.unlink(missing_ok=True)
    try:
        with _opened(path) as source, new.writing() as writer, write_errors(to):
            saved = _Repair(source, writer._connection).all()
        if not saved.runs and not saved.studies:
            raise StoreError(f"nothing in {path} can be read as a part of a store")
        with write_errors(to):
            new.path.replace(to)
    finally:
        for ending in ("", "-wal", "-shm", ".lock"):
            new.path.with_name(new.path.name + ending).unlink(missing_ok=True)
    return saved


def _opened(path: Path) -> closing[sqlite3.Connection]:
    with read_errors(path):
        connection = sqlite3.connect(read_only(path), uri=True)
    # What is no text is refused row by row.
    connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    return closing(connection)


class _Repair:
    """Goes through the tables of a damaged store."""

    def __init__(self, source: sqlite3.Connection, new: sqlite3.Connection):
        self.source, self.new = source, new

    def all(self) -> Saved:
        """Save all that can be read, in one transaction."""
        saved = Saved()
        self.new.execute("BEGIN")
        studies = {row["name"] for row in self._rows("studies", "rowid") if self._put("studies", row)}
        for row in self._rows("study_runs", "rowid"):
            if row["study"] in studies:
                self._put("study_runs", row)
        for table in ("failures", "failed"):
            for row in self._rows(table, "rowid"):
                self._put(table, row)
        whole = {row["id"]: row for row in self._rows("runs", "rowid") if self._is_whole("runs", row)}
        listed = {row["id"] for row in self._rows("runs", "id", ["id"])}  # from the index, which may lie on other pages
        for id in listed - whole.keys():
            for row in self._rows("runs", "id", where="WHERE id = ?", values=(id,)):
                if self._is_whole("runs", row):
                    whole[id] = row
        for id, row in whole.items():
            saved.runs += self._put("runs", row)
            complete = [self._save_of(table, id) for table in ("points", "slices", "snapshots")]
            saved.partly += [] if all(complete) else [id]
        saved.studies = len(studies)
        saved.lost = sorted(str(id) for id in listed - whole.keys())
        self.new.execute("COMMIT")
        return saved

    def _save_of(self, table: str, id: str) -> bool:
        """Save the rows of a run; whether all of them could be read."""
        self.complete = True
        order = "share" if table == "snapshots" else "step"
        rows = list(self._rows(table, order, where="WHERE run = ?", values=(id,)))
        return sum(self._put(table, row) for row in rows) == len(rows) and self.complete

    def _rows(
        self, table: str, order: str, columns: Sequence[str] = (), where: str = "", values: tuple[Any, ...] = ()
    ) -> Iterator[Row]:
        """Every row that can be read: from the first to a damaged page, then from the last."""
        names = [name for name in self._there(table) if name in (columns or self._columns(table))]
        seen = set()
        for direction in ("ASC", "DESC") if names else ():
            sql = f"SELECT {', '.join(names)} FROM main.{table} {where} ORDER BY {order} {direction}"
            try:
                for row in self.source.execute(sql, values):
                    if row not in seen:
                        seen.add(row)
                        yield dict(zip(names, row, strict=True))
                return
            except sqlite3.DatabaseError:
                self.complete = False

    def _there(self, table: str) -> list[str]:
        """The columns that the damaged store has; none where the table is not there, or is a view."""
        try:
            real = self.source.execute("SELECT 1 FROM main.sqlite_master WHERE name = ? AND type = 'table'", (table,))
            about = self.source.execute(f"PRAGMA main.table_info({table})") if real.fetchone() else ()
            return [name for _, name, *_ in about]
        except sqlite3.DatabaseError:
            return []

    def _columns(self, table: str) -> dict[str, tuple[str, bool]]:
        """The columns of a table of this version: their type, and whether they are never empty."""
        rows = self.new.execute(f"PRAGMA table_info({table})")
        return {name: (kind, bool(filled or key)) for _, name, kind, filled, _, key in rows}

    def _is_whole(self, table: str, row: Row) -> bool:
        try:
            for name, (kind, filled) in self._columns(table).items():
                value = row.get(name)
                if value is None and filled and name in row:
                    return False
                if value is not None and not isinstance(value, _KINDS[kind]):
                    return False
                if isinstance(value, str):
                    value.encode()
            _CHECKS.get(table, bool)(row)
        except _UNREADABLE:
            return False
        return True

    def _put(self, table: str, row: Row) -> int:
        """Save a row if it is whole; how many were saved."""
        if not self._is_whole(table, row):
            return 0
        sql = f"INSERT OR IGNORE INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})"
        return self.new.execute(sql, tuple(row.values())).rowcount


def _check_run(row: Row) -> None:
    specification_of(row["spec"])
    measures([row["final"]])
    for name in ("versions", "notes"):
        check_provenance(name, row[name])


def _check_slice(row: Row) -> None:
    data = json.loads(row["data"])
    for name in ("values", "counts", "right"):
        sum(data[name])


_CHECKS: dict[str, Callable[[Row], object]] = {
    "runs": _check_run,
    "points": lambda row: measures([row["data"]]),
    "slices": _check_slice,
    "snapshots": lambda row: safetensors.numpy.load(row["data"]),
}
"""What raises where a row cannot be used."""
