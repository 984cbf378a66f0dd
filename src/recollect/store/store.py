"""Where results are kept: one SQLite file, written by one process at a time. The file is the truth.

A run's row appears when the run has ended, with its curve and slices, in one transaction: a row that exists is
complete. Measurements of runs that have not ended are in tables of their own. Reading takes no lock and changes nothing, so that
a store of an older version can also be read where it cannot be written.
"""

import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from recollect.spec import digest, nearest
from recollect.spec.faults import fault_point
from recollect.store.files import StoreBusy as StoreBusy
from recollect.store.files import StoreError, read_errors, write_errors
from recollect.store.opening import held, journal_mode, read_only
from recollect.store.records import Failure, StoredRun, measures
from recollect.store.schema import MIGRATIONS, READ_AS_NEXT, SCHEMA, TABLES, tables_of
from recollect.store.versions import release
from recollect.store.writer import Writer

_ENDINGS = ("", "-wal", "-shm", "-journal", ".lock", ".holder", ".draft", ".checkpoints", ".weights", ".measured")
"""What the files and folders of a store are called after its own name."""


class Store:
    """A results file. Writing happens inside `writing()`."""

    def __init__(self, path: str | Path, create: bool = False):
        self.path = Path(path)
        try:
            self.path.resolve().exists()
        except (OSError, RuntimeError, ValueError) as error:  # too long a name, a loop of links, a null character
            raise StoreError(
                f"there can be no store at {str(path)[:300]!r}: {getattr(error, 'strerror', error)}"
            ) from None
        if not self.path.exists() and not create:
            raise StoreError(f"no store at {self.path}: run a study first, or name another with --store")
        for parent in self.path.parents:
            if parent.exists() and not parent.is_dir():
                raise StoreError(f"cannot put a store at {self.path}: {parent} is a file, not a folder")
        if self.path.is_dir():
            raise StoreError(f"cannot put a store at {self.path}: it is a folder; name a file in it")
        if self.path.exists() and not self.path.is_file():
            raise StoreError(f"{self.path} is not a file, but a device or a pipe; name another with --store")
        if self._exists:
            with self._reading():
                pass  # refuses what is no store, or one of a newer version

    @property
    def checkpoints(self) -> Path:
        """The folder of this store's snapshots, which must be moved with it."""
        return self._beside(".checkpoints")

    @property
    def weights(self) -> Path:
        """The folder of trained models that belongs to this store."""
        return self._beside(".weights")

    def weights_file(self, run: str) -> Path:
        """Where the weights of a run are, if they were kept."""
        name = run if run.isalnum() and len(run) <= 64 else digest(run)  # an id from elsewhere may be a path
        return self.weights / f"{name}.safetensors"

    def studies(self) -> dict[str, list[str]]:
        """The ids of each study's runs, in order."""
        ids: dict[str, list[str]] = {name: [] for (name,) in self._query("SELECT name FROM studies ORDER BY rowid")}
        for study, run in self._query("SELECT study, run FROM study_runs ORDER BY study, place"):
            if study in ids:  # else of a damaged store, as `recollect check` says
                ids[study].append(run)
        return ids

    def study_source(self, name: str) -> str:
        """The file of a study, as YAML; a name that the store does not know is refused with the nearest that it does."""
        sources = dict(self._query("SELECT name, source FROM studies"))
        if name not in sources:
            raise StoreError(f"no study {name!r} in {self.path}: {nearest(name, sources)}")
        return sources[name]

    def done(self) -> dict[str, str]:
        """The status of every run that has ended, by id."""
        return dict(self._query("SELECT id, status FROM runs"))

    def accuracies(self) -> dict[str, float]:
        """The final accuracy of every run that has ended, by id; NaN where it diverged before it could be measured."""
        rows = self._query("SELECT id, accuracy FROM runs")
        return {id: float("nan") if accuracy is None else accuracy for id, accuracy in rows}

    def precisions(self, study: str) -> set[str]:
        """The precisions in which the runs of a study that have ended were trained."""
        sql = "SELECT DISTINCT json_extract(spec, '$.train.precision') FROM runs JOIN study_runs ON run = id WHERE study = ?"
        return {precision or "float32" for (precision,) in self._query(sql, [study])}

    def failures(self) -> list[Failure]:
        """Every attempt that failed, in order; a run may have ended since."""
        rows = self._query("SELECT run, attempt, error, traceback, time FROM failures ORDER BY rowid")
        return [Failure(*row) for row in rows]

    def failed(self) -> dict[str, Failure]:
        """The last failure, without its traceback, of runs that failed for good: they are tried again only on request."""
        rows = self._query("SELECT run, attempts, error, '', time FROM failed ORDER BY rowid")
        return {row[0]: Failure(*row) for row in rows}

    def recent(self, limit: int) -> list[StoredRun]:
        """The runs that ended last, the newest first."""
        return self._stored("ORDER BY rowid DESC LIMIT ?", limit)

    def find(self, beginning: str) -> list[StoredRun]:
        """The runs whose ids begin so, by id."""
        return self._stored("WHERE substr(id, 1, ?) = ? ORDER BY id", len(beginning), beginning)

    def lookup(self, name: str) -> StoredRun:
        """The run whose id is, or alone begins with, `name`."""
        runs = self.find(name) if name else []
        if not runs:
            raise StoreError(f"no run {name!r} has ended in {self.path}; `recollect results` lists those that have")
        if len(runs) > 1:
            some = ", ".join(run.id for run in runs[:4]) + (", ..." if len(runs) > 4 else "")
            raise StoreError(f"{len(runs)} runs in {self.path} begin with {name!r} ({some}); give more of the id")
        return runs[0]

    def _stored(self, which: str, *parameters: Any) -> list[StoredRun]:
        columns = "id, spec, model, status, step, seconds, device, final"
        rows = self._query(f"SELECT {columns} FROM runs {which}", parameters)
        with read_errors(self.path):
            return [StoredRun(*about, final=measures([final])[0]) for *about, final in rows]

    def _query(self, sql: str, parameters: Iterable[Any] = ()) -> list[tuple]:
        """What a statement finds; nothing where the store has not been written yet. Only for this package: it is SQL."""
        if not self._exists:
            return []
        with self._reading() as connection:
            try:
                return connection.execute(sql, tuple(parameters)).fetchall()
            except sqlite3.DatabaseError as error:  # damaged, or moved meanwhile
                raise StoreError(f"cannot read {self.path}: {error}") from None

    @contextmanager
    def writing(self) -> Iterator[Writer]:
        """Hold the store for this process, and bring it to this version's schema; another process gets an error that names the
        holder."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot put a store at {self.path}: {error.strerror}") from None
        with held(self.path, self._create):
            fault_point("store: locked")
            with write_errors(self.path):
                connection = self._connect_to_write()
            fault_point("store: opened")
            writer = Writer(connection, self.path, self.weights)
            try:
                yield writer
            finally:
                writer.close()

    def refuse_name(self, study: str) -> None:
        """Refuse a study that is called as one of the store's own files: pictures go to a folder of its name beside them."""
        if study in {self._beside(ending).name for ending in _ENDINGS}:
            raise StoreError(f"a study cannot be called {study!r}: a file of the store {self.path} has that name")

    def _beside(self, ending: str) -> Path:
        """A file or folder that belongs to the store, by whatever name this is reached."""
        real = self.path.resolve()
        return real.with_name(real.name + ending)

    def holder(self) -> str:
        """The process that writes to the store now, in words; empty where there is none. A killed one may still be named."""
        path = self._beside(".holder")
        return path.read_text().strip() if path.is_file() else ""

    @property
    def _exists(self) -> bool:
        return self.path.exists() and self.path.stat().st_size > 0

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that cannot write, and sees a store of an older schema as one of this."""
        with read_errors(self.path), closing(sqlite3.connect(read_only(self.path), uri=True)) as connection:
            for old in range(self._schema(connection), SCHEMA):
                connection.executescript(READ_AS_NEXT[old])
            yield connection

    def _schema(self, connection: sqlite3.Connection) -> int:
        """The store's schema, which this version must know, with all of its tables: a view in place of one may never end."""
        connection.execute("PRAGMA trusted_schema = OFF")
        row, kinds = None, {}
        try:
            tables = connection.execute("SELECT name, type, sql FROM sqlite_master").fetchall()
            kinds = {name: kind for name, kind, sql in tables if not str(sql).upper().startswith("CREATE VIRTUAL")}
            if kinds.get("meta") == "table":
                row = connection.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorname != "SQLITE_NOTADB":
                raise
        if row is None:
            raise StoreError(f"{self.path} is not a recollect store")
        version = int(row[0]) if re.fullmatch(r"[1-9]\d{0,8}", str(row[0])) else 0
        if not version:
            raise StoreError(f"{self.path} has schema {str(row[0])[:40]!r}, which no version of recollect writes")
        if version > SCHEMA:
            raise StoreError(
                f"{self.path} has schema {version}, and this version of recollect reads schemas up to {SCHEMA}; upgrade recollect"
            )
        if lacking := sorted(name for name in tables_of(version) if kinds.get(name) != "table"):
            raise StoreError(
                f"{self.path} is damaged: it has no table {', '.join(lacking)}; `recollect repair` saves the rest"
            )
        return version

    def _connect_to_write(self) -> sqlite3.Connection:
        path = self.path.resolve()
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)  # the writer has a lock
        try:
            connection.execute(f"PRAGMA journal_mode = {journal_mode(self.path)}")
            connection.execute("PRAGMA synchronous = FULL")
            for old in range(self._schema(connection), SCHEMA):
                connection.executescript(
                    f"BEGIN; {MIGRATIONS[old]}; UPDATE meta SET value = '{old + 1}' WHERE key = 'schema'; COMMIT;"
                )
        except BaseException:
            connection.close()
            raise
        return connection

    def _create(self) -> None:
        """Make the file unless it is there, under another name first, so that one without its tables is never seen."""
        if self._exists:
            return
        with write_errors(self.path):
            draft = self._beside(".draft")
            draft.unlink(missing_ok=True)
            with closing(sqlite3.connect(draft)) as connection:
                connection.executescript(
                    f"BEGIN; {TABLES} INSERT INTO meta VALUES ('schema', '{SCHEMA}'), "
                    f"('written by', 'recollect {release()}'); COMMIT;"
                )
            fault_point("store: rename")
            draft.replace(self.path.resolve())
            fault_point("store: renamed")
