"""Where results are kept: one SQLite file, written by one process at a time. The file is the truth.

A run's row appears when the run has ended, with its curve and slices, in one transaction: what is there is whole. What was
measured of runs that have not ended is in tables of its own, for those who watch. Reading takes no lock and changes nothing, so
that a store of an older version can also be read where it cannot be written.
"""

import json
import os
import socket
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import filelock

from recollect.spec import nearest
from recollect.store.files import StoreBusy, StoreError, write_errors
from recollect.store.records import Failure, Slice, StoredRun
from recollect.store.schema import MIGRATIONS, READ_AS_NEXT, SCHEMA, TABLES
from recollect.store.versions import release
from recollect.store.writer import Writer, now

_NETWORK = ("nfs", "cifs", "smb", "fuse.sshfs", "lustre", "gpfs", "beegfs", "ceph", "glusterfs", "9p")


class Store:
    """A results file. Reading needs no lock; writing happens inside `writing()`."""

    def __init__(self, path: str | Path, create: bool = False):
        self.path = Path(path)
        if not self.path.exists() and not create:
            raise StoreError(f"no store at {self.path}: run a study first, or name another with --store")
        for parent in self.path.parents:
            if parent.exists() and not parent.is_dir():
                raise StoreError(f"cannot put a store at {self.path}: {parent} is a file, not a folder")
        if self.path.is_dir():
            raise StoreError(f"cannot put a store at {self.path}: it is a folder; name a file in it")
        if self._there:
            with self._reading():
                pass  # refuses what is no store, or one of a newer version

    @property
    def checkpoints(self) -> Path:
        """The folder of snapshots that belongs to this store: whoever moves the one moves the other."""
        return self.path.with_name(self.path.name + ".checkpoints")

    @property
    def weights(self) -> Path:
        """The folder of trained models that belongs to this store."""
        return self.path.with_name(self.path.name + ".weights")

    def weights_file(self, run: str) -> Path:
        """Where the weights of a run are, if they were kept."""
        return self.weights / f"{run}.safetensors"

    def studies(self) -> dict[str, list[str]]:
        """The ids of each study's runs, in order."""
        found: dict[str, list[str]] = {name: [] for (name,) in self._query("SELECT name FROM studies ORDER BY rowid")}
        for study, run in self._query("SELECT study, run FROM study_runs ORDER BY study, place"):
            found[study].append(run)
        return found

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
        of = "SELECT DISTINCT json_extract(spec, '$.train.precision') FROM runs JOIN study_runs ON run = id WHERE study = ?"
        return {precision or "float32" for (precision,) in self._query(of, [study])}

    def failures(self) -> list[Failure]:
        """Every attempt that failed, in order; a run may have ended since."""
        rows = self._query("SELECT run, attempt, error, traceback, time FROM failures ORDER BY rowid")
        return [Failure(*row) for row in rows]

    def recent(self, limit: int) -> list[StoredRun]:
        """The runs that ended last, the newest first."""
        return self._stored("ORDER BY rowid DESC LIMIT ?", limit)

    def find(self, beginning: str) -> list[StoredRun]:
        """The runs whose ids begin so, by id."""
        return self._stored("WHERE substr(id, 1, ?) = ? ORDER BY id", len(beginning), beginning)

    def curve(self, run: str) -> list[dict[str, float | None]]:
        """Every measurement of a run during its training; None for what was not finite."""
        rows = self._query("SELECT data FROM points WHERE run = ? ORDER BY step", [run])
        return [json.loads(data) for (data,) in rows]

    def slices(self, run: str) -> list[Slice]:
        """A run's answers by tag, of each measurement that has them."""
        rows = self._query("SELECT step, tag, data FROM slices WHERE run = ? ORDER BY step, tag", [run])
        return [Slice(step, tag, **json.loads(data)) for step, tag, data in rows]

    def _stored(self, which: str, *parameters: Any) -> list[StoredRun]:
        columns = "id, spec, model, status, step, seconds, device, final"
        rows = self._query(f"SELECT {columns} FROM runs {which}", parameters)
        return [StoredRun(*about, final=json.loads(final)) for *about, final in rows]

    def _query(self, sql: str, parameters: Iterable[Any] = ()) -> list[tuple]:
        """What a statement finds; nothing where the store has not been written yet. Only for this package: it is SQL."""
        if not self._there:
            return []
        with self._reading() as connection:
            return connection.execute(sql, tuple(parameters)).fetchall()

    @contextmanager
    def writing(self) -> Iterator[Writer]:
        """Hold the store for this process, and bring it to this version's schema; another process is told who has it."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot put a store at {self.path}: {error.strerror}") from None
        lock_path, holder_path = self._beside(".lock"), self._beside(".holder")
        try:
            lock = filelock.FileLock(lock_path, blocking=False)
            lock.acquire()
        except filelock.Timeout:
            raise StoreBusy(
                f"{self.path} is in use by {_holder(holder_path)}; wait for it, or stop it, or use another --store"
            ) from None
        except OSError as error:
            raise StoreError(f"cannot lock {lock_path}: {error.strerror}") from None
        try:
            with write_errors(self.path):
                holder_path.write_text(f"process {os.getpid()} on {socket.gethostname()} since {now()}\n")
                connection = self._connect_to_write()
            writer = Writer(connection, self.path, self.weights)
            try:
                yield writer
            finally:
                writer.close()
        finally:
            holder_path.unlink(missing_ok=True)
            lock.release()

    def holder(self) -> str:
        """The process that writes to the store now, in words; empty where there is none. A killed one may still be named."""
        with suppress(OSError):
            return self._beside(".holder").read_text().strip()
        return ""

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(self.path.name + ending)

    @property
    def _there(self) -> bool:
        return self.path.exists() and self.path.stat().st_size > 0

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that cannot write, and sees a store of an older schema as one of this."""
        try:
            connection = sqlite3.connect(read_only(self.path), uri=True)
        except sqlite3.OperationalError as error:
            raise StoreError(f"cannot open {self.path}: {error}") from None
        with closing(connection):
            for old in range(self._schema(connection), SCHEMA):
                connection.executescript(READ_AS_NEXT[old])
            yield connection

    def _schema(self, connection: sqlite3.Connection) -> int:
        try:
            (version,) = connection.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
        except (sqlite3.DatabaseError, TypeError):  # no database, no such table, no such row
            raise StoreError(f"{self.path} is not a recollect store") from None
        if int(version) > SCHEMA:
            raise StoreError(
                f"{self.path} has schema {version}, and this version of recollect reads schemas up to {SCHEMA}; upgrade recollect"
            )
        return int(version)

    def _connect_to_write(self) -> sqlite3.Connection:
        if not self._there:
            self._create()
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)  # the writer has a lock
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
        """Make the file under another name first, so that one without its tables is never seen."""
        draft = self.path.with_name(self.path.name + ".draft")
        draft.unlink(missing_ok=True)
        with closing(sqlite3.connect(draft)) as connection:
            connection.executescript(
                f"BEGIN; {TABLES} INSERT INTO meta VALUES ('schema', '{SCHEMA}'), "
                f"('written by', 'recollect {release()}'); COMMIT;"
            )
        draft.replace(self.path)


def _holder(path: Path) -> str:
    """Who holds the lock; a moment's patience, as the name is written just after the lock is taken."""
    for _ in range(20):
        with suppress(OSError):
            if name := path.read_text().strip():
                return name
        time.sleep(0.05)
    return "another process"


def journal_mode(path: Path) -> str:
    """WAL on local disks; a rollback journal on network file systems, where WAL's shared memory does not work."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return "WAL"
    folder = path.resolve().parent
    over = [(mount, kind) for mount, kind in mounts if folder.is_relative_to(mount)]
    kind = max(over, key=lambda pair: len(pair[0]), default=("/", ""))[1]
    return "DELETE" if kind.startswith(_NETWORK) else "WAL"


def read_only(path: Path) -> str:
    """The address under which SQLite reads a store and cannot write to it."""
    uri = path.resolve().as_uri()
    with closing(sqlite3.connect(f"{uri}?mode=ro", uri=True)) as connection:
        try:
            connection.execute("SELECT count(*) FROM sqlite_master")  # only now is the file looked at
        except sqlite3.DatabaseError as error:
            logs = [path.with_name(path.name + ending) for ending in ("-wal", "-journal")]
            if error.sqlite_errorname.startswith("SQLITE_READONLY") and not any(log.exists() for log in logs):
                # Even reading wants to put an index beside a store that has a write-ahead log. Where it may not, and no log
                # is there, the file is whole and nobody writes to it.
                return f"{uri}?mode=ro&immutable=1"
    return f"{uri}?mode=ro"
