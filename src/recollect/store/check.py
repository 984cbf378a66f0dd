"""What is wrong with a store: its file, its rows, the files beside it, and runs whose code has changed. Nothing is written."""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

from recollect.spec import SpecError
from recollect.spec.imports import closure, digest_of, is_file
from recollect.spec.source import NAMED_FILE, named_code
from recollect.store.checkpoints import Checkpoints
from recollect.store.files import StoreError, read_errors
from recollect.store.frames import but_rate_and_seed, curves_frame, runs_frame, slices_frame, snapshots_frame
from recollect.store.opening import read_only
from recollect.store.store import Store

SHOWN = 5
"""How many examples of a fault are named."""


class Finding(NamedTuple):
    """The result of one check."""

    what: str
    """What was looked at."""
    answer: str
    """`ok`, `note` or `wrong`."""
    text: str


def check(path: str | Path, trust: bool = False) -> Iterator[Finding]:
    """Look at all of a store, one finding after another. `trust`: code that its runs name is imported to see whether it is
    still the same; else only the files are compared."""
    yield _integrity(Path(path))
    try:
        store = Store(path)
        runs, studies = len(store.done()), len(store.studies())
        known = f"{runs:,} run{'s' * (runs != 1)} in {studies:,} stud{'y' if studies == 1 else 'ies'}"
    except StoreError as error:
        yield Finding("schema", "wrong", str(error))
        return
    yield Finding("schema", "ok", known)
    looks = {"rows": _rows, "orphans": _orphans, "code": partial(_code, trust=trust), "weights": _weights}
    for what, look in {**looks, "checkpoints": _checkpoints}.items():
        try:
            with read_errors(store.path):
                yield look(store)
        except StoreError as error:
            yield _wrong(what, [str(error)])


def _integrity(path: Path) -> Finding:
    """Whether SQLite finds the file whole."""
    if not is_file(path):
        Store(path)  # says why not
    try:
        with closing(sqlite3.connect(read_only(path), uri=True)) as connection:
            found = [line for (line,) in connection.execute(f"PRAGMA integrity_check({SHOWN})")]
    except sqlite3.Error as error:
        found = [str(error)]
    return Finding("integrity", "ok", "the file is whole") if found == ["ok"] else _wrong("integrity", found)


def _rows(store: Store) -> Finding:
    """Whether every row can be read."""
    faults = []
    for read in (runs_frame, curves_frame, slices_frame, snapshots_frame):
        try:
            read(store)
        except StoreError as error:
            faults.append(str(error).partition(";")[0])
    return _wrong("rows", faults) if faults else Finding("rows", "ok", "every row can be read")


def _orphans(store: Store) -> Finding:
    """Rows that belong to no run, and runs that belong to no study."""
    faults = [
        f"{count:,} rows of {table} belong to no run that has ended"
        for table in ("points", "slices", "snapshots")
        if (count := _count(store, f"{table} WHERE run NOT IN (SELECT id FROM runs)"))
    ]
    if lost := _count(store, "study_runs WHERE study NOT IN (SELECT name FROM studies)"):
        faults.append(f"{lost:,} rows of study_runs belong to no study")
    if faults:
        return _wrong("orphans", faults)
    free = _count(store, "runs WHERE id NOT IN (SELECT run FROM study_runs)")
    return Finding("orphans", "note" if free else "ok", f"{free:,} runs belong to no study" if free else "none")


def _count(store: Store, which: str) -> int:
    return sum(count for (count,) in store._query(f"SELECT count(*) FROM {which}"))  # none where the file is empty


def _weights(store: Store) -> Finding:
    """Kept weights of runs that the store does not have."""
    known = store.done()
    files = [path.name for path in sorted(store.weights.glob("*")) if path.stem not in known]
    return _noted("weights", files, "of no run that has ended", "each file is of a run")


def _checkpoints(store: Store) -> Finding:
    """Snapshots that cannot be used."""
    found = Checkpoints(store.checkpoints).damaged()
    return _noted("checkpoints", found, "damaged; their runs start anew", "every one can be used")


def _code(store: Store, trust: bool) -> Finding:
    """Runs whose specification means something else now, by configuration: their results stay, and are not reused."""
    changed, unknown = list[str](), list[str]()
    groups: dict[str, str] = {}
    for id, text in store._query("SELECT id, spec FROM runs ORDER BY rowid"):
        groups.setdefault(but_rate_and_seed(text)[0], id)
    for id in groups.values():
        (stored,) = store.find(id)
        try:
            same = (stored.trusted if trust else stored.run).id == id
        except SpecError:
            same = _same_files(json.loads(stored.spec))
        if same is None:
            unknown.append(id)
        elif not same:
            changed.append(id)
    if changed:
        return _noted("code", changed, "changed since; the same study trains such runs anew", "")
    return _noted("code", unknown, "with code that was not looked for (--trust imports it)", "as it was")


def _same_files(spec: object) -> bool | None:
    """Whether the files that a specification names are those that it was made with, by their text; None: that cannot be
    determined."""
    named = [(NAMED_FILE.fullmatch(name), source) for name, source in named_code(spec)]
    if not named or not all(found and is_file(Path(found[1])) for found, _ in named):
        return None
    return all(found and digest_of(closure(Path(found[1]).resolve())) == source for found, source in named)


def _noted(what: str, found: Iterable[str], fault: str, fine: str) -> Finding:
    names = list(found)
    if not names:
        return Finding(what, "ok", fine)
    return Finding(what, "note", f"{len(names):,} {fault}: {', '.join(names[:SHOWN])}{', ..' * (len(names) > SHOWN)}")


def _wrong(what: str, faults: list[str]) -> Finding:
    return Finding(what, "wrong", "; ".join(faults[:SHOWN]))
