"""Which runs train together: cohorts of one shape, as large as suits the device."""

import itertools
from collections.abc import Iterable, Sequence

from recollect.study.cost import held_bytes
from recollect.study.executors.base import own_code
from recollect.train.spec import RunSpec

GPU_COHORT, CPU_COHORT = 192, 8
"""Runs that train together at most, by device. On an H200 a run in a cohort of 128 takes 7 % less time than in one of 36; fewer
train together where memory is measured to be too small."""
STATE = 4 * 2**30
"""Bytes of parameters and optimiser state that a cohort of more than two runs has at most. Models so large fill a GPU two at a
time, and each snapshot of a cohort, one per minute and one at each stop, has all of these bytes."""


def by_shape(runs: Iterable[RunSpec]) -> dict[str, list[RunSpec]]:
    """Runs by what the members of one cohort share."""
    groups: dict[str, list[RunSpec]] = {}
    for run in runs:
        groups.setdefault(run.shape, []).append(run)
    return groups


def pack(runs: Sequence[RunSpec], size: int) -> list[list[RunSpec]]:
    """Cohorts of at most `size` runs of one shape, as even as can be, in the order of the study."""
    cohorts = []
    for group in by_shape(runs).values():
        parts = -(-len(group) // (min(size, _limit(group[0])) if len(group) > 2 else size))
        bounds = [round(i * len(group) / parts) for i in range(parts + 1)]
        cohorts += [group[a:b] for a, b in itertools.pairwise(bounds)]
    return cohorts


def filling(pending: Sequence[RunSpec], likely: Sequence[RunSpec], size: int) -> list[RunSpec]:
    """Of runs that are likely to be wanted later, the likeliest first, those for which the cohorts of `pending` have room."""
    room: dict[str, int] = {}
    for run in pending:
        room[run.shape] = room.get(run.shape, size) - 1 or size
    chosen = []
    for run in likely:
        if 0 < room.get(run.shape, 0) < size:
            room[run.shape] -= 1
            chosen.append(run)
    return chosen


def _limit(run: RunSpec) -> int:
    """How many runs of this shape may train together because of their size. A user's own code runs only where it trains, so
    that the size of its runs is unknown here."""
    if own_code(run):
        return GPU_COHORT
    return max(2, STATE // sum(held_bytes(run)))


def cohort_size(device: str, runs: int, slots: int) -> int:
    """How many runs train together unless the user says otherwise.

    A GPU needs many to be full, and has fewer where its memory is measured to be too small. A CPU's caches want few, and
    every processor should have a cohort.
    """
    if device.startswith("cuda"):
        return GPU_COHORT
    return min(CPU_COHORT, max(2, -(-runs // max(1, slots))))
