"""Writes to a store that this process holds: each call is one transaction.

What is measured of runs in training only waits in a queue; a thread writes it, so that training does not wait for the disk.
"""

import itertools
import json
import sqlite3
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from recollect.spec import finite
from recollect.spec.faults import fault_point
from recollect.store.files import StoreError, write_errors, write_whole
from recollect.store.labels import configurations
from recollect.store.versions import versions

if TYPE_CHECKING:
    from recollect.train.events import Ended, Measured
    from recollect.train.spec import RunSpec

INTERVAL = 1.0
"""Seconds between two writes of what was measured meanwhile .."""
SHARE = 0.01
""".. and the share of the time that they may take: where a disk is slow they are rarer."""


class Writer:
    """What `Store.writing` gives: the one connection that may change the store."""

    def __init__(self, connection: sqlite3.Connection, path: Path, weights: Path):
        self._connection, self._path, self._weights = connection, path, weights
        self._lock, self._closed = threading.RLock(), threading.Event()
        self._queue: SimpleQueue[tuple[RunSpec, Measured, float]] = SimpleQueue()
        self._waiting: dict[str, tuple[RunSpec, int, dict[int, tuple]]] = {}  # by run: its steps, and points by step
        self._thread: threading.Thread | None = None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing of what is written within. Only for this package: it is SQL."""
        with self._lock, write_errors(self._path):
            fault_point("transaction: begin")
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                fault_point("transaction: commit")
                self._connection.execute("COMMIT")
                fault_point("transaction: committed")
            except BaseException:
                if self._connection.in_transaction:  # a full disk may have ended it
                    self._connection.execute("ROLLBACK")
                raise

    def add_study(self, name: str, source: str, runs: "list[RunSpec]") -> None:
        """Remember a study and which runs it is made of; a study of that name is replaced (its results stay). Results of these
        runs that were saved before a field of specifications existed get its default, so that they compare with new ones."""
        labels = {run.id: label for label, group in configurations(runs).items() for run in group}
        rows = [(name, i, run.id, labels.get(run.id), run.train.total_steps) for i, run in enumerate(runs)]
        with self.transaction() as db:
            db.execute("INSERT OR REPLACE INTO studies VALUES (?, ?)", (name, source))
            db.execute("DELETE FROM study_runs WHERE study = ?", (name,))
            db.executemany("INSERT INTO study_runs VALUES (?, ?, ?, ?, ?)", rows)
            ended = {id for (id,) in db.execute("SELECT id FROM runs")}
            specs = [(text, run.id, text) for run in runs if run.id in ended for text in [run.model_dump_json()]]
            db.executemany("UPDATE runs SET spec = ? WHERE id = ? AND spec != ?", specs)

    def set_aside(self, study: str, source: str, runs: Collection[str]) -> str:
        """Where a study of this name is in the store with another file, and has trained runs that are not among these: give it
        another name, so that the new one does not hide it. Returns that name; empty where there was no need."""
        with self.transaction() as db:
            same = db.execute("SELECT name FROM studies WHERE name = ? AND source = ?", (study, source)).fetchall()
            trained = "SELECT id FROM runs UNION SELECT run FROM training"  # what has only failed is nothing to keep
            runs_of_study = db.execute(f"SELECT run FROM study_runs WHERE study = ? AND run IN ({trained})", (study,))
            if same or {run for (run,) in runs_of_study} <= set(runs):
                return ""
            taken = {name for (name,) in db.execute("SELECT name FROM studies")}
            name = next(new for i in itertools.count(1) if (new := f"{study[:74]}.{i}") not in taken)
            db.execute("UPDATE studies SET name = ? WHERE name = ?", (name, study))
            db.execute("UPDATE study_runs SET study = ? WHERE study = ?", (name, study))
        return name

    def add_measured(self, runs: "list[RunSpec]", event: "Measured") -> None:
        """Keep what was measured of runs in training, a second or so from now. A run that is trained again, from a checkpoint or
        from its start, loses the points that it had from this step on."""
        now = time.time()
        for run in runs:
            if run.id in event.points:
                self._queue.put((run, event, now))
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_measured_now_and_then, daemon=True)
            self._thread.start()

    def _write_measured_now_and_then(self) -> None:
        spent = 0.0
        while not self._closed.wait(max(INTERVAL, spent / SHARE)):
            began = time.monotonic()
            with suppress(StoreError, sqlite3.Error):  # saving a result reports the error; this is tried again
                self._write_measured()
            spent = time.monotonic() - began

    def _write_measured(self) -> None:
        with self._lock:
            self._take_queued()
            if not self._waiting:
                return
            points = [(id, *point) for id, (*_, points) in self._waiting.items() for point in points.values()]
            with self.transaction() as db:
                again = [(id, min(points)) for id, (*_, points) in self._waiting.items()]
                db.executemany("DELETE FROM training_points WHERE run = ? AND step >= ?", again)
                begun = [(id, run.model_dump_json(), run.model.title, n) for id, (run, n, _) in self._waiting.items()]
                db.executemany("INSERT OR IGNORE INTO training VALUES (?, ?, ?, ?)", begun)
                db.executemany("INSERT INTO training_points VALUES (?, ?, ?, ?, ?)", points)
            self._waiting.clear()

    def _take_queued(self) -> None:
        while not self._queue.empty():
            run, event, time = self._queue.get()
            data = event.points[run.id]
            *_, points = self._waiting.setdefault(run.id, (run, event.steps, {}))
            for later in [step for step in points if step > event.step]:
                del points[later]
            points[event.step] = event.step, finite(data["accuracy"]), time, _json(data)

    def add_results(self, results: "list[Ended]", device: str) -> None:
        """Keep the results of runs that ended."""
        for result in results:
            if result.weights is not None:
                with write_errors(self._path):
                    write_whole(self._weights / f"{result.run.id}.safetensors", result.weights)
        with self.transaction() as db:
            self._take_queued()
            for result in results:
                id, row = result.run.id, _row(result, device)
                self._waiting.pop(id, None)
                for table in ("training", "training_points", "failed"):
                    db.execute(f"DELETE FROM {table} WHERE run = ?", (id,))
                names, marks = ", ".join(row), ", ".join("?" * len(row))
                db.execute(f"INSERT INTO runs ({names}) VALUES ({marks})", tuple(row.values()))
                points = [(id, point["step"], _json(point)) for point in result.curve]
                db.executemany("INSERT INTO points VALUES (?, ?, ?)", points)
                slices = [(id, s["step"], s["tag"], _json(s, without=("step", "tag"))) for s in result.slices]
                db.executemany("INSERT INTO slices VALUES (?, ?, ?, ?)", slices)
                db.executemany("INSERT INTO snapshots VALUES (?, ?, ?, ?)", [(id, *kept) for kept in result.snapshots])

    def add_failure(self, run: str, attempt: int, error: str, traceback: str) -> None:
        """Keep the record of a failed attempt."""
        with self.transaction() as db:
            db.execute("INSERT INTO failures VALUES (?, ?, ?, ?, ?)", (run, attempt, error, traceback, now()))

    def compact(self) -> None:
        """Give the room of what was removed back to the disk."""
        with self._lock, write_errors(self._path):
            self._connection.execute("VACUUM")

    def give_up(self, run: str, attempts: int, error: str) -> None:
        """Keep that a run failed for good."""
        with self.transaction() as db:
            db.execute("INSERT OR REPLACE INTO failed VALUES (?, ?, ?, ?)", (run, attempts, error, now()))

    def close(self) -> None:
        """Write what is waiting, and let go of the store."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()
        with suppress(StoreError, sqlite3.Error):
            self._write_measured()
        self._connection.close()


def now() -> str:
    """The time in UTC, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime()) + " UTC"


def _row(result: "Ended", device: str) -> dict[str, Any]:
    """The row of the table `runs`, by column."""
    from recollect.train.spec import SEMANTICS  # brings torch along: readers do without

    run, (highest, reached) = result.run, _best(result)
    return {
        "id": run.id, "spec": run.model_dump_json(), "model": run.model.title, "status": result.status,
        "step": result.step, "accuracy": finite(result.final["accuracy"]), "best_accuracy": highest, "best_step": reached,
        "final": _json(result.final), "parameters": result.parameters, "state_size": result.state_size,
        "seconds": result.seconds, "device": device, "versions": _json(versions()), "notes": json.dumps(result.notes),
        "ended": now(), "semantics": SEMANTICS,
    }  # fmt: skip


def _best(result: "Ended") -> tuple[float | None, int | None]:
    """The highest accuracy of any measurement, and the step at which it was first reached."""
    points = [(point["accuracy"], point["step"]) for point in result.curve] + [(result.final["accuracy"], result.step)]
    measured = [(accuracy, -step) for accuracy, step in points if accuracy == accuracy]
    highest, step = max(measured, default=(None, None))
    return highest, None if step is None else -int(step)


def _json(data: dict[str, Any], without: tuple[str, ...] = ()) -> str:
    """JSON with null for what is not finite."""
    kept = {name: finite(value) for name, value in data.items() if name not in without}
    return json.dumps(kept, separators=(",", ":"), allow_nan=False)
