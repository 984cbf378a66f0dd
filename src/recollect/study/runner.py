"""Runs a study: packs what is not done yet into cohorts, trains them, and keeps each result as it comes."""

import itertools
import traceback
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from recollect.spec import SpecError
from recollect.study.store import Store, Writer
from recollect.study.study import Study
from recollect.train.cohort import Ended, Event, Measured, train
from recollect.train.run import RunSpec

ATTEMPTS = 2
"""How often a run that fails alone is tried."""


@dataclass
class Outcome:
    """What became of a study."""

    runs: int
    reused: int = 0
    """Runs that the store already had."""
    ended: Counter = field(default_factory=Counter)
    """Runs trained now, by how they ended."""
    failed: dict[str, str] = field(default_factory=dict)
    """Runs that failed for good: id and error."""


@dataclass
class Failed:
    """A run that failed for good."""

    run: RunSpec
    error: str


Watch = Callable[[list[RunSpec], Event | Failed], None]
"""Told of every event, with the cohort it belongs to."""


def run_study(study: Study, store: Store, device: str = "auto", cohort: int = 0, watch: Watch | None = None) -> Outcome:
    """Train every run of a study that the store does not have yet; safe to call again after any interruption."""
    runs = study.runs()
    device = choose_device(device)
    with store.writing() as writer:
        done = store.done()
        writer.add_study(study.name, study.to_yaml(), runs)
        outcome = Outcome(len(runs), reused=sum(run.id in done for run in runs))
        pending = [run for run in runs if run.id not in done]
        queue = deque(pack(pending, cohort or default_cohort(device)))
        attempts: Counter[str] = Counter()
        while queue:
            members = queue.popleft()
            waiting = {run.id: run for run in members}
            try:
                for event in train(members, device):
                    if isinstance(event, Ended):
                        writer.add_results([event], device)
                        outcome.ended[event.status] += 1
                        del waiting[event.run.id]
                    if watch:
                        watch(members, event)
            except Exception as error:
                _after_failure(error, list(waiting.values()), queue, attempts, writer, outcome, watch)
    return outcome


def _after_failure(error, left: list[RunSpec], queue: deque, attempts: Counter, writer: Writer, outcome, watch) -> None:
    """Split a cohort that failed until the run at fault is alone; try that one again, then give it up."""
    if len(left) > 1:
        half = len(left) // 2
        queue.extendleft([left[half:], left[:half]])
        return
    for run in left:
        attempts[run.id] += 1
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        writer.add_failure(run.id, attempts[run.id], text, traceback.format_exc())
        if attempts[run.id] < ATTEMPTS:
            queue.append([run])
        else:
            outcome.failed[run.id] = text
            if watch:
                watch(left, Failed(run, text))


def pack(runs: list[RunSpec], size: int) -> list[list[RunSpec]]:
    """Cohorts of at most `size` runs of one shape, as even as can be, in the order of the study."""
    groups: dict[str, list[RunSpec]] = {}
    for run in runs:
        groups.setdefault(run.shape, []).append(run)
    cohorts = []
    for group in groups.values():
        parts = -(-len(group) // size)
        bounds = [round(i * len(group) / parts) for i in range(parts + 1)]
        cohorts += [group[a:b] for a, b in itertools.pairwise(bounds)]
    return cohorts


def choose_device(device: str) -> str:
    """A device that is there; `auto` is a GPU where there is one."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise SpecError(f"device {device!r} cannot be used ({reason}); choose auto, cpu, cuda or cuda:N") from None
    return device


def default_cohort(device: str) -> int:
    """How many runs train together unless told otherwise: a GPU needs many to be full, a CPU's caches want few."""
    return 36 if device.startswith("cuda") else 8


__all__ = ["Failed", "Measured", "Outcome", "choose_device", "default_cohort", "pack", "run_study"]
