"""Where results are kept: one SQLite file, written by one process at a time. The file is the truth.

A run's row appears when the run has ended, with its curve and slices, in one transaction: what is there is whole.
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

from recollect.spec import UserError
from recollect.store.files import write_whole
from recollect.store.schema import MIGRATIONS, SCHEMA, TABLES
from recollect.store.versions import release, versions
from recollect.train.events import Ended
from recollect.train.spec import RunSpec

_NETWORK = ("nfs", "cifs", "smb", "fuse.sshfs", "lustre", "gpfs", "beegfs", "ceph", "glusterfs", "9p")


class StoreError(UserError):
    """A store that cannot be used: the message says which, and why."""


class StoreBusy(StoreError):
    """Another process writes to the store."""

    exit_code = 3


@contextmanager
def no_room(path: Path) -> Iterator[None]:
    """Tells the person who has to make room on a full or failing disk."""
    try:
        yield
    except (sqlite3.OperationalError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise StoreError(
            f"cannot write to {path} ({reason}); what was kept is whole, and the same command goes on from there"
        ) from error


def weights_file(store: Path, run: str) -> Path:
    """Where the weights of a run are, if they were kept: in a folder beside the store."""
    return store.with_name(store.name + ".weights") / f"{run}.safetensors"


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
        if self._there and self._schema() < SCHEMA:
            with self.writing():
                pass  # opening it to write brings it to this version's schema

    @property
    def checkpoints(self) -> Path:
        """The folder of snapshots that belongs to this store: whoever moves the one moves the other."""
        return self.path.with_name(self.path.name + ".checkpoints")

    @contextmanager
    def writing(self) -> Iterator["Writer"]:
        """Hold the store for this process; another process is told who has it."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot put a store at {self.path}: {error.strerror}") from None
        lock_path = self.path.with_name(self.path.name + ".lock")
        holder_path = self.path.with_name(self.path.name + ".holder")
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
            with no_room(self.path):
                holder_path.write_text(f"process {os.getpid()} on {socket.gethostname()} since {_now()}\n")
                connection = self._connect_to_write()
            try:
                yield Writer(connection, self.path)
            finally:
                connection.close()
        finally:
            holder_path.unlink(missing_ok=True)
            lock.release()

    def query(self, sql: str, parameters: Iterable[Any] = ()) -> list[tuple]:
        """Read something."""
        with self._reading() as connection:
            return connection.execute(sql, tuple(parameters)).fetchall()

    def studies(self) -> dict[str, list[str]]:
        """The ids of each study's runs, in order."""
        found: dict[str, list[str]] = {name: [] for (name,) in self.query("SELECT name FROM studies ORDER BY rowid")}
        for study, run in self.query("SELECT study, run FROM study_runs ORDER BY study, place"):
            found[study].append(run)
        return found

    def done(self) -> dict[str, str]:
        """The status of every run that has ended, by id."""
        return dict(self.query("SELECT id, status FROM runs")) if self._there else {}

    def accuracies(self) -> dict[str, float]:
        """The final accuracy of every run that has ended, by id; NaN where it diverged before it could be measured."""
        rows = self.query("SELECT id, accuracy FROM runs") if self._there else []
        return {id: float("nan") if accuracy is None else accuracy for id, accuracy in rows}

    def recent(self, limit: int) -> list[tuple]:
        """Of the last runs that ended, newest first: specification, model, seconds, step, device."""
        return self.query("SELECT spec, model, seconds, step, device FROM runs ORDER BY rowid DESC LIMIT ?", (limit,))

    @property
    def _there(self) -> bool:
        return self.path.exists() and self.path.stat().st_size > 0

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        try:
            connection = sqlite3.connect(f"{self.path.resolve().as_uri()}?mode=ro", uri=True)
        except sqlite3.OperationalError as error:
            raise StoreError(f"cannot open {self.path}: {error}") from None
        try:
            yield connection
        finally:
            connection.close()

    def _schema(self) -> int:
        try:
            (version,) = self.query("SELECT value FROM meta WHERE key = 'schema'")[0]
        except (sqlite3.DatabaseError, IndexError):
            raise StoreError(f"{self.path} is not a recollect store") from None
        if int(version) > SCHEMA:
            raise StoreError(
                f"{self.path} has schema {version}, and this version of recollect reads schemas up to {SCHEMA}; upgrade recollect"
            )
        return int(version)

    def _connect_to_write(self) -> sqlite3.Connection:
        if not self._there:
            self._create()
        connection = sqlite3.connect(self.path, isolation_level=None)
        try:
            connection.execute(f"PRAGMA journal_mode = {journal_mode(self.path)}")
            connection.execute("PRAGMA synchronous = FULL")
            (version,) = connection.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
            for old in range(int(version), SCHEMA):
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


class Writer:
    """The one who writes."""

    def __init__(self, connection: sqlite3.Connection, path: Path):
        self._connection, self._path = connection, path

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with no_room(self._path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # a full disk may have ended it
                    self._connection.execute("ROLLBACK")
                raise

    def add_study(self, name: str, source: str, runs: list[RunSpec]) -> None:
        """Remember a study and which runs it is made of; a study of that name is replaced (its results stay)."""
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO studies VALUES (?, ?)", (name, source))
            db.execute("DELETE FROM study_runs WHERE study = ?", (name,))
            db.executemany("INSERT INTO study_runs VALUES (?, ?, ?)", [(name, i, run.id) for i, run in enumerate(runs)])

    def add_results(self, results: list[Ended], device: str) -> None:
        """Keep the results of runs that ended."""
        for result in results:
            if result.weights is not None:
                with no_room(self._path):
                    write_whole(weights_file(self._path, result.run.id), result.weights)
        with self._transaction() as db:
            for result in results:
                id, best = result.run.id, _best(result)
                db.execute(
                    "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (id, result.run.model_dump_json(), result.run.model.title, result.status, result.step,
                     _finite(result.final["accuracy"]), best[0], best[1], _json(result.final), result.parameters,
                     result.seconds, device, _json(versions()), json.dumps(result.notes), _now()),
                )  # fmt: skip
                points = [(id, point["step"], _json(point)) for point in result.curve]
                db.executemany("INSERT INTO points VALUES (?, ?, ?)", points)
                slices = [(id, s["step"], s["tag"], _json(s, without=("step", "tag"))) for s in result.slices]
                db.executemany("INSERT INTO slices VALUES (?, ?, ?, ?)", slices)
                db.executemany("INSERT INTO snapshots VALUES (?, ?, ?, ?)", [(id, *kept) for kept in result.snapshots])

    def add_failure(self, run: str, attempt: int, error: str, traceback: str) -> None:
        """Keep the record of a failed attempt."""
        with self._transaction() as db:
            db.execute("INSERT INTO failures VALUES (?, ?, ?, ?, ?)", (run, attempt, error, traceback, _now()))


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


def _best(result: Ended) -> tuple[float | None, int | None]:
    points = [(point["accuracy"], point["step"]) for point in result.curve] + [(result.final["accuracy"], result.step)]
    points = [(accuracy, step) for accuracy, step in points if accuracy == accuracy]
    if not points:
        return None, None
    highest = max(accuracy for accuracy, _ in points)
    return highest, int(min(step for accuracy, step in points if accuracy == highest))


def _finite(x: float) -> float | None:
    return x if x - x == 0 else None


def _json(data: dict[str, Any], without: tuple[str, ...] = ()) -> str:
    """JSON with null for what is not finite."""
    return json.dumps(
        {k: _finite(v) if isinstance(v, float) else v for k, v in data.items() if k not in without},
        separators=(",", ":"), allow_nan=False,
    )  # fmt: skip


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime()) + " UTC"
