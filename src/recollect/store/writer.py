"""Writes to a store that this process holds: each call is one transaction."""

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from recollect.spec import finite
from recollect.spec.faults import fault_point
from recollect.store.files import write_errors, write_whole
from recollect.store.versions import versions
from recollect.train.events import Ended
from recollect.train.spec import SEMANTICS, RunSpec


class Writer:
    """What `Store.writing` gives: the one connection that may change the store."""

    def __init__(self, connection: sqlite3.Connection, path: Path, weights: Path):
        self._connection, self._path, self._weights = connection, path, weights

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with write_errors(self._path):
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
                with write_errors(self._path):
                    write_whole(self._weights / f"{result.run.id}.safetensors", result.weights)
        with self._transaction() as db:
            for result in results:
                row = _row(result, device)
                names, marks = ", ".join(row), ", ".join("?" * len(row))
                db.execute(f"INSERT INTO runs ({names}) VALUES ({marks})", tuple(row.values()))
                id = result.run.id
                points = [(id, point["step"], _json(point)) for point in result.curve]
                db.executemany("INSERT INTO points VALUES (?, ?, ?)", points)
                slices = [(id, s["step"], s["tag"], _json(s, without=("step", "tag"))) for s in result.slices]
                db.executemany("INSERT INTO slices VALUES (?, ?, ?, ?)", slices)
                db.executemany("INSERT INTO snapshots VALUES (?, ?, ?, ?)", [(id, *kept) for kept in result.snapshots])
                db.execute("DELETE FROM failed WHERE run = ?", (id,))

    def add_failure(self, run: str, attempt: int, error: str, traceback: str) -> None:
        """Keep the record of a failed attempt."""
        with self._transaction() as db:
            db.execute("INSERT INTO failures VALUES (?, ?, ?, ?, ?)", (run, attempt, error, traceback, now()))

    def give_up(self, run: str, attempts: int, error: str) -> None:
        """Keep that a run failed for good."""
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO failed VALUES (?, ?, ?, ?)", (run, attempts, error, now()))


def now() -> str:
    """The time in UTC, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime()) + " UTC"


def _row(result: Ended, device: str) -> dict[str, Any]:
    """The row of the table `runs`, by column."""
    run, (highest, reached) = result.run, _best(result)
    return {
        "id": run.id, "spec": run.model_dump_json(), "model": run.model.title, "status": result.status,
        "step": result.step, "accuracy": finite(result.final["accuracy"]), "best_accuracy": highest, "best_step": reached,
        "final": _json(result.final), "parameters": result.parameters, "state_size": result.state_size,
        "seconds": result.seconds, "device": device, "versions": _json(versions()), "notes": json.dumps(result.notes),
        "ended": now(), "semantics": SEMANTICS,
    }  # fmt: skip


def _best(result: Ended) -> tuple[float | None, int | None]:
    """The highest accuracy of any measurement, and the step at which it was first reached."""
    points = [(point["accuracy"], point["step"]) for point in result.curve] + [(result.final["accuracy"], result.step)]
    points = [(accuracy, step) for accuracy, step in points if accuracy == accuracy]
    if not points:
        return None, None
    highest = max(accuracy for accuracy, _ in points)
    return highest, int(min(step for accuracy, step in points if accuracy == highest))


def _json(data: dict[str, Any], without: tuple[str, ...] = ()) -> str:
    """JSON with null for what is not finite."""
    kept = {name: finite(value) for name, value in data.items() if name not in without}
    return json.dumps(kept, separators=(",", ":"), allow_nan=False)
