"""The order in which cohorts train.

Without a time limit every cohort will be trained, so the order matters only where several train at once: the longest come first,
so that at the end no worker is left alone with a long one. Within a limit it matters how many runs end: the shortest per run
come first.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from recollect.study.cost import COMPILING, cpu_seconds, gpu_seconds, kind_of, will_compile, work_of
from recollect.study.executors.base import own_code
from recollect.study.packing import GPU_COHORT
from recollect.train.spec import RunSpec


def in_order(
    cohorts: list[list[RunSpec]], slots: int, limited: bool, seconds: Mapping[str, float]
) -> list[list[RunSpec]]:
    """The cohorts in the order in which they should train, `slots` at once; `seconds`: what each run needs, by its id."""

    def whole(cohort: list[RunSpec]) -> float:
        return sum(seconds[run.id] for run in cohort)

    if limited:
        return sorted(cohorts, key=lambda cohort: whole(cohort) / len(cohort))
    return sorted(cohorts, key=whole, reverse=True) if slots > 1 else cohorts


def step_seconds(runs: Sequence[RunSpec], device: str) -> dict[str, float]:
    """About how many seconds of a device a step of each run takes, by the run's id, measurements included, if all runs of its
    shape train together. A user's own code, which runs only where it trains, counts as the mean of the others."""
    shapes = Counter(run.shape for run in runs)
    found = {
        shape: _step_seconds(run, min(shapes[shape], GPU_COHORT), device)
        for shape, run in {run.shape: run for run in runs}.items()
        if not own_code(run)
    }
    mean = sum(found.values()) / len(found) if found else 1.0
    return {run.id: found.get(run.shape, mean) for run in runs}


def _step_seconds(run: RunSpec, members: int, device: str) -> float:
    """By the cost model. Code is compiled while others train, so that it is not counted."""
    if kind_of(device) != "cuda":
        return cpu_seconds(run, work_of(run)) / run.train.total_steps
    once = COMPILING / members if will_compile(run, members) else 0.0
    return (gpu_seconds(run, members) - once) / run.train.total_steps
