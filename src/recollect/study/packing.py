"""Which runs train together: cohorts of one shape, as large as suits the device."""

import itertools
from collections.abc import Sequence

from recollect.train.spec import RunSpec

GPU_COHORT, CPU_COHORT = 64, 8
"""Runs that train together at most, by device."""


def pack(runs: Sequence[RunSpec], size: int) -> list[list[RunSpec]]:
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


def cohort_size(device: str, runs: int, slots: int) -> int:
    """How many runs train together unless the user says otherwise.

    A GPU needs many to be full, and has fewer where its memory is measured to be too small. A CPU's caches want few, and
    every processor should have a cohort.
    """
    if device.startswith("cuda"):
        return GPU_COHORT
    return min(CPU_COHORT, max(2, -(-runs // max(1, slots))))
