"""Studies and runs renamed and removed, and what no study needs any more."""

import re
from collections.abc import Collection
from dataclasses import dataclass

import yaml

from recollect.spec import SpecError
from recollect.spec.reading import read_yaml
from recollect.store.files import StoreError
from recollect.store.store import Store

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
_OF_RUN = ("points", "slices", "snapshots", "failures", "training", "training_points", "failed", "study_runs")


@dataclass(frozen=True)
class Garbage:
    """What no study needs."""

    runs: list[str]
    """Runs that have ended and belong to no study."""
    begun: list[str]
    """Runs that have begun, have not ended, and belong to no study."""
    checkpoints: list[str]
    """Files of the folder of checkpoints: those that no unfinished run of a study can go on from."""
    bytes: int
    """Of these files."""


def rename_study(store: Store, old: str, new: str) -> None:
    """Give a study another name; its runs and their results stay."""
    source = read_yaml(store.study_source(old))  # refuses a name that the store does not know
    if not isinstance(source, dict):
        raise StoreError(f"the file of the study {old!r} in {store.path} cannot be read")
    if not _NAME.fullmatch(new):
        raise SpecError(
            f"{new!r} cannot name a study: letters, digits and _ . - only, at most 80, a letter or digit first"
        )
    store.refuse_name(new)
    if new in store.studies():
        raise StoreError(f"{store.path} has a study {new!r} already; remove it, or choose another name")
    text = yaml.safe_dump({**source, "name": new}, sort_keys=False)
    with store.writing() as writer, writer.transaction() as db:
        db.execute("UPDATE studies SET name = ?, source = ? WHERE name = ?", (new, text, old))
        db.execute("UPDATE study_runs SET study = ? WHERE study = ?", (new, old))


def runs_only_of(store: Store, study: str) -> list[str]:
    """The runs of a study that no other study has, whether they have ended or not."""
    store.study_source(study)
    others = "SELECT run FROM study_runs WHERE study != ?"
    found = store._query(f"SELECT run FROM study_runs WHERE study = ? AND run NOT IN ({others})", [study, study])
    return [run for (run,) in found]


def remove_study(store: Store, study: str, with_runs: bool = False) -> None:
    """Forget a study; `with_runs`: also the results of runs that no other study has."""
    runs = runs_only_of(store, study)
    with store.writing() as writer, writer.transaction() as db:
        db.execute("DELETE FROM studies WHERE name = ?", (study,))
        db.execute("DELETE FROM study_runs WHERE study = ?", (study,))
    if with_runs:
        remove_runs(store, runs)


def remove_runs(store: Store, runs: Collection[str]) -> None:
    """Remove runs, with their curves, failures and weights, from the store and from every study."""
    ids = [(run,) for run in runs]
    with store.writing() as writer, writer.transaction() as db:
        for table in _OF_RUN:
            db.executemany(f"DELETE FROM {table} WHERE run = ?", ids)
        db.executemany("DELETE FROM runs WHERE id = ?", ids)
    for run in runs:
        store.weights_file(run).unlink(missing_ok=True)


def garbage(store: Store) -> Garbage:
    """What no study needs."""
    from recollect.store.checkpoints import UNREADABLE, read_header, snapshot_files  # brings torch along

    of_no_study = "NOT IN (SELECT run FROM study_runs)"
    runs = [run for (run,) in store._query(f"SELECT id FROM runs WHERE id {of_no_study} ORDER BY rowid")]
    begun = [run for (run,) in store._query(f"SELECT run FROM training WHERE run {of_no_study}")]
    wanted = {run for (run,) in store._query("SELECT run FROM study_runs WHERE run NOT IN (SELECT id FROM runs)")}
    files, size = [], 0
    for path in snapshot_files(store.checkpoints):
        try:
            needed = bool(wanted.intersection(read_header(path).runs))
        except UNREADABLE:
            needed = False
        if not needed:
            files.append(path.name)
            size += path.stat().st_size
    return Garbage(runs, begun, files, size)


def collect(store: Store, found: Garbage) -> None:
    """Remove what no study needs, and give the room back to the disk."""
    remove_runs(store, [*found.runs, *found.begun])
    with store.writing() as writer:
        for name in found.checkpoints:
            (store.checkpoints / name).unlink(missing_ok=True)
        writer.compact()
