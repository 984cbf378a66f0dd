"""The one runner: expands studies, trains what the store does not have yet, and returns the results.

`Study.run`, `recollect run`, `reproduce`, `probe` and `demo` all come here. A study is expanded once; whether its whole grid or
only what a search asks for is trained is decided here and nowhere else.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from recollect.spec import SpecError, Stopped
from recollect.store import DEFAULT_STORE
from recollect.store.checkpoints import Checkpoints
from recollect.store.store import Store, Writer
from recollect.study.cost import kind_of
from recollect.study.executors import EXECUTORS
from recollect.study.executors.base import Executor, Resources
from recollect.study.outcome import Outcome
from recollect.study.packing import cohort_size, filling
from recollect.study.precision import chosen_precision, named_precisions
from recollect.study.progress import Progress
from recollect.study.search.base import Search, Searched
from recollect.study.sinks.base import Sink, Sinks, Watch
from recollect.study.spec import Study, distinct
from recollect.study.stop import StopRequest
from recollect.study.trainer import ATTEMPTS, Note, Trainer
from recollect.tasks import TASKS, as_task
from recollect.train.checkpoint import EVERY
from recollect.train.spec import RunSpec

SEEN = 0.05
"""The share of test rows in the training set above which the user is warned."""


@dataclass(frozen=True)
class Grid:
    """A study with its runs."""

    study: Study
    runs: list[RunSpec]

    def wanted(self, accuracy: Mapping[str, float], failed: Collection[str]) -> list[RunSpec]:
        """The runs to train, given what has ended: all of them, or those that the study's search asks for."""
        search = self.study.strategy
        return search.wanted(self.runs, accuracy, failed) if search else self.runs

    def likely(self, accuracy: Mapping[str, float], failed: Collection[str]) -> list[RunSpec]:
        """The runs that the study's search will probably ask for later, the most probable first."""
        search = self.study.strategy
        shares = search.likely(self.runs, accuracy) if search else {}
        likely = [run for run in self.runs if run.id in shares and run.id not in accuracy and run.id not in failed]
        return sorted(likely, key=lambda run: -shares[run.id])

    def searched(self, search: Search, store: Store, failed: Collection[str], before: Collection[str]) -> Searched:
        """The result of the study's search; `before`: the runs that the store had when it began."""
        accuracy = store.accuracies()
        wanted, results = search.wanted(self.runs, accuracy, failed), search.found(self.runs, accuracy)
        share = f"{len(wanted)} of {len(self.runs)} runs ({len(wanted) / len(self.runs):.0%})"
        reused = sum(run.id in before for run in wanted)
        return Searched(results, wanted, reused, len(self.runs), f"{search.describe(results)}, {share}")


def expand(
    studies: Study | Iterable[Study | Grid],
    allow_many: bool = False,
    precision: Callable[[Study], str] = lambda study: "float32",
) -> list[Grid]:
    """Studies with their runs; each grid is expanded once. `precision` gives that of a study which leaves it to the device."""
    listed = [studies] if isinstance(studies, Study) else list(studies)
    for name, times in Counter(item.study.name if isinstance(item, Grid) else item.name for item in listed).items():
        if times > 1:
            raise SpecError(f"{times} studies are called {name!r}; give each a name of its own")
    for study in listed:
        if isinstance(study, Study):
            study.check_size(allow_many)
    return [item if isinstance(item, Grid) else Grid(item, item.runs(precision(item))) for item in listed]


def run(
    studies: Study | Iterable[Study | Grid],
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
    stop_after: float = 0.0,
    timeout: float = 0.0,
    retry: bool = False,
    options: Mapping[str, Any] | None = None,
    allow_many: bool = False,
) -> Outcome:
    """Train every run of some studies that the store does not have yet, and return the results.

    Safe to call again after any interruption: what has ended is not trained again, and what was in training goes on from its
    last snapshot. SIGINT (Ctrl-C), SIGTERM and SIGHUP have a snapshot taken first, and raise `Stopped`; a second one ends at
    once. Several studies are trained as one, so that no worker waits for the last run of one of them.

    Args:
        studies: one study or several.
        store: the results file.
        executor: `local`, `ray`, another registered name, or an open Executor, which decides the device and stays open.
        device: `cpu`, `cuda`, `cuda:1`, or `auto`: a GPU where there is one.
        workers: cohorts that train at once. 0: as many as fill the GPU and hide compilation, or one per processor.
        cohort: runs trained together at most. 0: chosen for the device.
        progress: whether to show progress, in a terminal or a notebook; or a Progress of your own.
        sinks: where else the curves go, such as TensorBoard; or functions that are called with every cohort and event.
        keep_weights: whether the trained models are kept in a folder beside the store.
        checkpoint_every: seconds of training between snapshots of a cohort.
        attempts: how often a run that fails alone, or a cohort whose worker dies, is tried.
        stop_after: seconds after which training stops as if by a signal. 0: never.
        timeout: seconds that a cohort may take; then its worker is killed and its runs have failed. 0: any time.
        retry: whether runs that failed before are tried again; else they are left as they are.
        options: what one executor alone needs, such as `{"address": "10.0.0.1:6379"}` for Ray.
        allow_many: whether a grid of more than a million runs is meant.
    """
    listed = [studies] if isinstance(studies, Study) else list(studies)
    for study in listed:
        if not isinstance(study, Study | Grid):
            raise SpecError(
                f"expected a Study, got {studies!r}: Study.load(path) reads a file, Study(**fields) takes a mapping"
            )
    for name, number in {"workers": workers, "cohort": cohort, "stop_after": stop_after, "timeout": timeout}.items():
        if number < 0:
            raise SpecError(f"{name} {number}: expected a number that is not negative")
    opened = store if isinstance(store, Store) else Store(store, create=True)
    executor_class = EXECUTORS.find(executor) if isinstance(executor, str) else type(executor)
    resources = Resources(
        device=device if isinstance(executor, str) else executor.device, workers=workers, checkpoint_every=checkpoint_every,
        timeout=timeout, keep_weights=keep_weights, folder=opened.path.with_name(opened.path.name + ".jobs"),
        options=options or {},
    )  # fmt: skip
    reasons: dict[str, None] = {}

    def precision(study: Study) -> str:
        chosen, why = chosen_precision(study, opened, executor_class.has_bfloat16(resources))
        reasons.update({why: None} if why else {})
        return chosen

    grids = expand(listed, allow_many, precision)
    for grid in grids:
        opened.refuse_name(grid.study.name)
    displays = [progress] if isinstance(progress, Progress) else [Progress()] if progress else []
    with ExitStack() as stack:
        runs = distinct([grid.runs for grid in grids])
        if isinstance(executor, str):
            done = opened.done()
            pending = [run for run in runs if run.id not in done]
            executor = stack.enter_context(executor_class.start(replace(resources, runs=pending)))
        watching = stack.enter_context(Sinks([*displays, *sinks]))
        for display in displays:
            display.device = executor.device
            display.where = (
                f"on {executor.device} in {named_precisions(runs)}{''.join(reasons)}, results in {opened.path}"
            )
        writer = stack.enter_context(opened.writing())
        stop = stack.enter_context(StopRequest(stop_after))
        return _run(grids, opened, writer, executor, watching, stop, cohort, attempts, retry)


def _set_aside(grids: Sequence[Grid], writer: Writer) -> Iterator[str]:
    """Keep studies of the same names with other runs under names of their own; a note for each."""
    for grid in grids:
        if new_name := writer.set_aside(grid.study.name, grid.study.to_yaml(), {run.id for run in grid.runs}):
            yield (
                f"the store had another study {grid.study.name}: it is called {new_name} now, and keeps its runs (recollect "
                f"results {new_name}; recollect remove {new_name})"
            )


def _repeated(runs: Sequence[RunSpec]) -> Iterator[str]:
    """A warning for each built-in task whose test rows are among the rows that a model is trained on."""
    built_in = [run for run in runs if run.task.kind in TASKS.built_in]
    trained = {run.task.model_dump_json(): (run.task.kind, run.train) for run in built_in}
    for task, (kind, train) in trained.items():
        rows = train.train_rows or train.total_steps * train.batch
        if (share := _seen_share(task, rows)) > SEEN:
            finding = f"{share:.0%} of the test rows of {kind} are among the {rows:,} training rows"
            yield f"{finding}: what looks like recall may be memorisation"


@cache
def _seen_share(task: str, rows: int) -> float:
    return as_task(json.loads(task)).seen_share(rows)


def _run(
    grids: list[Grid], store: Store, writer: Writer, executor: Executor, sinks: Sinks, stop: StopRequest, cohort: int,
    attempts: int, retry: bool,
) -> Outcome:  # fmt: skip
    """Train round after round, each for all studies at once, until no study wants more."""
    before = store.done()
    checkpoints = Checkpoints(store.checkpoints)
    checkpoints.find(before)
    trainer = Trainer(writer, executor, checkpoints, sinks.event, stop, attempts)
    earlier = store.failed()
    trainer.failures.update({id: last.attempt for id, last in earlier.items()})
    if not retry:
        trainer.failed.update({id: last.error for id, last in earlier.items()})
    searching = any(grid.study.strategy for grid in grids)
    notes = list(_set_aside(grids, writer))
    ahead: dict[str, RunSpec] = {}
    while True:
        accuracy = store.accuracies()
        wanted = [grid.wanted(accuracy, trainer.failed) for grid in grids]
        if searching and kind_of(executor.device) == "cuda":  # on a CPU time goes with the runs: none are trained ahead
            asked = trainer.left(distinct(wanted), accuracy)
            size = cohort or cohort_size(executor.device, len(asked), executor.slots)
            likely = distinct([grid.likely(accuracy, trainer.failed) for grid in grids])
            ahead |= {run.id: run for run in filling(asked, likely, size)}
            wanted = [
                distinct([runs, [run for run in grid.runs if run.id in ahead]])
                for grid, runs in zip(grids, wanted, strict=True)
            ]
        for grid, runs in zip(grids, wanted, strict=True):
            writer.add_study(grid.study.name, grid.study.to_yaml(), runs)
        runs = distinct(wanted)
        pending = trainer.left(runs, accuracy)
        sinks.begin({grid.study.name: asked for grid, asked in zip(grids, wanted, strict=True)}, set(accuracy))
        for text in (*notes, *_repeated(pending)):
            sinks.event([], Note(text))
        notes = []
        trainer.train(pending, cohort or cohort_size(executor.device, len(pending), executor.slots), accuracy)
        left = trainer.left(pending, store.done())
        if stop() and left:
            raise Stopped(trainer.stopped(left), stop.exit_code)
        trainer.give_up(left, "it was not trained")
        if not searching or not pending:
            break
    searches = {
        grid.study.name: grid.searched(search, store, trainer.failed, before)
        for grid in grids
        if (search := grid.study.strategy)
    }
    reused = sum(run.id in before for run in runs)
    studies = tuple(grid.study for grid in grids)
    failed = {run.id: trainer.failed[run.id] for run in runs if run.id in trainer.failed}
    not_tried = () if retry else tuple(id for id in failed if id in earlier)
    return Outcome(studies, store, len(runs), reused, trainer.ended, failed, searches, not_tried)
