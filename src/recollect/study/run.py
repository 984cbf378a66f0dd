"""The one runner: expands studies, trains what the store does not have yet, and returns the results.

`Study.run`, `recollect run`, `reproduce`, `probe` and `demo` all come here. A study is expanded once; whether its whole grid or
only what a search asks for is trained is decided here and nowhere else.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from recollect.spec import SpecError
from recollect.store import DEFAULT_STORE
from recollect.store.checkpoints import Checkpoints
from recollect.store.store import Store, Writer
from recollect.study.executors import EXECUTORS
from recollect.study.executors.base import Executor, Resources
from recollect.study.outcome import Outcome
from recollect.study.progress import Progress
from recollect.study.search.base import Search, Searched
from recollect.study.sinks.base import Sink, Sinks, Watch
from recollect.study.spec import Study, distinct
from recollect.study.trainer import ATTEMPTS, Note, Trainer, cohort_size, pack
from recollect.tasks import TASKS, as_task
from recollect.train.checkpoint import EVERY
from recollect.train.spec import RunSpec

SEEN = 0.05
"""The share of test rows in the training set above which a person is warned."""


@dataclass(frozen=True)
class Grid:
    """A study with its runs."""

    study: Study
    runs: list[RunSpec]

    def wanted(self, accuracy: Mapping[str, float], failed: Collection[str]) -> list[RunSpec]:
        """The runs to train, given what has ended: all of them, or those that the study's search asks for."""
        search = self.study.strategy
        return search.wanted(self.runs, accuracy, failed) if search else self.runs

    def searched(self, search: Search, store: Store, failed: Collection[str], before: Collection[str]) -> Searched:
        """What the study's search came to; `before`: the runs that the store had when it began."""
        accuracy = store.accuracies()
        asked, found = search.wanted(self.runs, accuracy, failed), search.found(self.runs, accuracy)
        share = f"{len(asked)} of {len(self.runs)} runs ({len(asked) / len(self.runs):.0%})"
        return Searched(
            found, asked, sum(run.id in before for run in asked), len(self.runs), f"{search.describe(found)}, {share}"
        )


def expand(studies: Study | Iterable[Study], allow_many: bool = False) -> list[Grid]:
    """Studies with their runs; each grid is expanded once."""
    studies = [studies] if isinstance(studies, Study) else list(studies)
    names = [study.name for study in studies]
    for name in names:
        if names.count(name) > 1:
            raise SpecError(f"{names.count(name)} studies are called {name!r}; give each a name of its own")
    for study in studies:
        study.check_size(allow_many)
    return [Grid(study, study.runs()) for study in studies]


def run(
    studies: Study | Iterable[Study] | Sequence[Grid],
    *,
    store: Store | str | Path = DEFAULT_STORE,
    executor: Executor | str = "local",
    device: str = "auto",
    workers: int = 0,
    cohort: int = 0,
    progress: bool | Progress = True,
    sinks: Iterable[Sink | Watch] = (),
    keep_weights: bool = False,
    checkpoint_every: float = EVERY,
    attempts: int = ATTEMPTS,
    options: Mapping[str, Any] | None = None,
    allow_many: bool = False,
) -> Outcome:
    """Train every run of some studies that the store does not have yet, and return the results.

    Safe to call again after any interruption: what has ended is not trained again, and what was in training goes on from its
    last snapshot. Several studies are trained as one, so that no worker waits for the last run of one of them.

    Args:
        studies: one study or several.
        store: the results file.
        executor: `local`, `ray`, another registered name, or an open Executor, which decides the device and stays open.
        device: `cpu`, `cuda`, `cuda:1`, or `auto`: a GPU where there is one.
        workers: cohorts that train at once. 0: one per GPU, or one per processor.
        cohort: runs trained together at most. 0: chosen for the device.
        progress: whether to show progress, in a terminal or a notebook; or a Progress of your own.
        sinks: where else the curves go, such as TensorBoard; or functions that are called with every cohort and event.
        keep_weights: whether the trained models are kept in a folder beside the store.
        checkpoint_every: seconds of training between snapshots of a cohort.
        attempts: how often a run that fails alone, or a cohort whose worker dies, is tried.
        options: what one executor alone needs, such as `{"address": "10.0.0.1:6379"}` for Ray.
        allow_many: whether a grid of more than a million runs is meant.
    """
    listed = [studies] if isinstance(studies, Study) else list(studies)
    grids = [one for one in listed if isinstance(one, Grid)]
    grids += expand([one for one in listed if isinstance(one, Study)], allow_many)
    kept = store if isinstance(store, Store) else Store(store, create=True)
    shown = [progress] if isinstance(progress, Progress) else [Progress()] if progress else []
    with ExitStack() as stack:
        if isinstance(executor, str):
            most = len(pack(distinct([grid.runs for grid in grids]), 2))
            resources = Resources(device, workers, most, checkpoint_every, keep_weights, options or {})
            executor = stack.enter_context(EXECUTORS.find(executor).start(resources))
        watching = stack.enter_context(Sinks([*shown, *sinks]))
        for one in shown:
            one.where = f"on {executor.device}, results in {kept.path}"
        writer = stack.enter_context(kept.writing())
        return _run(grids, kept, writer, executor, watching, cohort, attempts)


def _repeated(runs: Sequence[RunSpec]) -> Iterator[str]:
    """A warning for each built-in task whose test rows stand among the rows that a model is trained on."""
    trained = {
        run.task.model_dump_json(): (run.task.kind, run.train) for run in runs if run.task.kind in TASKS.built_in
    }
    for task, (kind, train) in trained.items():
        rows = train.train_rows or train.total_steps * train.batch
        if (share := _seen_share(task, rows)) > SEEN:
            known = f"{share:.0%} of the test rows of {kind} stand among the {rows:,} training rows"
            yield f"{known}: what looks like recall may be memory"


@cache
def _seen_share(task: str, rows: int) -> float:
    return as_task(json.loads(task)).seen_share(rows)


def _run(
    grids: list[Grid], store: Store, writer: Writer, executor: Executor, sinks: Sinks, cohort: int, attempts: int
) -> Outcome:
    """Train round after round, each for all studies at once, until no study wants more."""
    before = store.done()
    checkpoints = Checkpoints(store.checkpoints)
    checkpoints.find(before)
    trainer = Trainer(writer, executor, checkpoints, sinks.event, attempts)
    searching = any(grid.study.strategy for grid in grids)
    while True:
        accuracy = store.accuracies()
        wanted = [grid.wanted(accuracy, trainer.failed) for grid in grids]
        for grid, runs in zip(grids, wanted, strict=True):
            writer.add_study(grid.study.name, grid.study.to_yaml(), runs)
        runs = distinct(wanted)
        pending = [run for run in runs if run.id not in accuracy and run.id not in trainer.failed]
        sinks.begin({grid.study.name: found for grid, found in zip(grids, wanted, strict=True)}, set(accuracy))
        for text in _repeated(pending):
            sinks.event([], Note(text))
        trainer.train(pending, cohort or cohort_size(executor.device, len(pending), executor.slots))
        if not searching or not pending:
            break
    searches = {
        grid.study.name: grid.searched(search, store, trainer.failed, before)
        for grid in grids
        if (search := grid.study.strategy)
    }
    reused = sum(run.id in before for run in runs)
    studies = tuple(grid.study for grid in grids)
    return Outcome(studies, store, len(runs), reused, trainer.ended, trainer.failed, searches)
