"""How far studies are, while they run and afterwards."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from recollect.store.files import read_errors
from recollect.store.store import Store


@dataclass
class ConfigurationProgress:
    """How far the runs of one configuration of a study are."""

    study: str
    configuration: str
    runs: int = 0
    ended: int = 0
    """Also those that diverged or were given up."""
    diverged: int = 0
    failed: int = 0
    """Runs that have not ended and of which an attempt failed."""
    begun: int = 0
    """Runs that have been measured and have not ended."""
    steps: int = 0
    """Of all its runs; 0 where an older version wrote the study, which did not say."""
    steps_done: int = 0
    """A run that has ended has done all of its steps, also where it ended early."""
    best_accuracy: float | None = None
    """The highest of any measurement so far .."""
    best_lr: float | None = None
    """.. and at which learning rate."""
    measured: float | None = None
    """When a run of it that has not ended was measured last, in seconds since 1970."""

    @property
    def left(self) -> int:
        """Runs that have not ended."""
        return self.runs - self.ended


def progress(store: Store, study: str | None = None) -> list[ConfigurationProgress]:
    """How far each configuration of each study is, or of one study; in the order of the studies and of their runs."""
    if study is not None:
        store.study_source(study)  # refuses a name that the store does not know
    with read_errors(store.path):
        return list(_progress(store, study).values())


def _progress(store: Store, study: str | None) -> dict[tuple[str, str], ConfigurationProgress]:
    """By study and configuration."""
    found: dict[tuple[str, str], ConfigurationProgress] = {}
    best: dict[tuple[str, str], str] = {}  # the id of the best run
    for name, label, steps, run, status, ended_best, step, best_so_far, time, failed in store._query(
        _PROGRESS, [study] * 2
    ):
        key = name, label or "a configuration of an older version"
        part = found.setdefault(key, ConfigurationProgress(*key))
        part.runs += 1
        part.ended += status is not None
        part.diverged += status == "diverged"
        part.begun += status is None and step is not None
        part.failed += status is None and failed
        part.steps += steps or 0
        part.steps_done += (steps or 0) if status else (step or 0)
        highest = ended_best if status else best_so_far
        if highest is not None and (part.best_accuracy is None or highest > part.best_accuracy):
            part.best_accuracy, best[key] = float(highest), run
        if not status and time:
            part.measured = max(part.measured or 0.0, time)
    for key, run in best.items():
        for (spec,) in store._query(_SPEC, [run, run]):
            found[key].best_lr = float(json.loads(spec)["train"]["lr"])
    return found


def by_study(store: Store, parts: Iterable[ConfigurationProgress]) -> dict[str, ConfigurationProgress]:
    """How far each study of the store is as a whole, also one that has no runs yet."""
    whole = {name: ConfigurationProgress(name, "") for name in store.studies()}
    for part in parts:
        study = whole.setdefault(part.study, ConfigurationProgress(part.study, ""))
        for name in ("runs", "ended", "diverged", "failed", "begun", "steps", "steps_done"):
            setattr(study, name, getattr(study, name) + getattr(part, name))
        if part.best_accuracy is not None and part.best_accuracy > (study.best_accuracy or -1.0):
            study.best_accuracy, study.best_lr = part.best_accuracy, part.best_lr
        study.measured = max(filter(None, (study.measured, part.measured)), default=None)
    return whole


_PROGRESS = """
SELECT study_runs.study, coalesce(label, model), study_runs.steps, study_runs.run, status, runs.best_accuracy, newest, best, time,
    study_runs.run IN (SELECT run FROM failures)
FROM studies JOIN study_runs ON study_runs.study = studies.name
LEFT JOIN runs ON runs.id = study_runs.run
LEFT JOIN (SELECT run, max(step) AS newest, max(accuracy) AS best, max(time) AS time FROM training_points GROUP BY run) so_far
    ON so_far.run = study_runs.run
WHERE ? IS NULL OR study_runs.study = ?
ORDER BY studies.rowid, study_runs.place
"""
_SPEC = "SELECT spec FROM runs WHERE id = ? UNION ALL SELECT spec FROM training WHERE run = ?"
