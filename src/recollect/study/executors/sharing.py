"""How many cohorts train at once where the user does not say: a fixed rule of the runs, the processors and the GPU's memory."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from recollect.study.cost import step_bytes, step_share, uncompiled_step, will_compile
from recollect.study.executors.base import own_code
from recollect.study.packing import GPU_COHORT, pack
from recollect.train.device import cores
from recollect.train.spec import RunSpec

MOST = 8
"""Workers that share one GPU at most: each has a context there, and a process with PyTorch here."""
PROCESSORS = 2
"""Processors per worker: one launches kernels, one compiles."""
HELD = 1.4
"""Bytes of the GPU's memory that a cohort needs while its code is being compiled, over the bytes that a step moves at the least.
A compiled step of six mixers held 0.22 to 0.45 of them (benchmarks/NOTES.md); the step before, twice that, is an assumption."""
FREE = 0.9
"""The share of a GPU's memory that is counted on."""


@dataclass(frozen=True)
class Load:
    """What a cohort asks of a GPU."""

    filled: float
    """The share of the GPU's time that it fills."""
    held: float
    """Bytes of memory."""


def suited_workers(runs: Sequence[RunSpec], places: Sequence[str]) -> int:
    """How many cohorts should train at once on these devices: several share a GPU that one does not fill."""
    if places[0] == "cpu":
        return max(1, min(cores(), len(pack(runs, 2))))
    cohorts = pack(runs, GPU_COHORT)
    memory = min(torch.cuda.get_device_properties(place).total_memory for place in places)
    each = workers_per_gpu([load_of(cohort) for cohort in cohorts], cores() // len(places), FREE * memory)
    return len(places) * max(1, min(each, -(-len(cohorts) // len(places))))


def workers_per_gpu(loads: Sequence[Load], processors: int, memory: float) -> int:
    """How many of these cohorts should train at once on a GPU with so many processors and so many bytes of memory.

    Enough to fill the GPU, as far as processors, memory and cohorts go. Cohorts that fill it alone train one after another: three
    of them at once took 1.2 times as long (Figure 1 at scale small, H200).
    """
    if not loads:
        return 1
    fill = len(loads) / sum(load.filled for load in loads)
    wanted = min(round(fill), len(loads), processors // PROCESSORS, MOST)
    largest = sorted((load.held for load in loads), reverse=True)
    while wanted > 1 and sum(largest[:wanted]) > memory:
        wanted -= 1
    return max(1, wanted)


def load_of(cohort: Sequence[RunSpec]) -> Load:
    """What a cohort asks of a GPU, by the cost model. A user's own code, which runs only where it trains, is not asked."""
    run, members = cohort[0], len(cohort)
    if own_code(run):
        return Load(0.5, 0.0)
    filled = step_share(run, members) if will_compile(run, members) else uncompiled_step(run, members)[1]
    return Load(filled, HELD * members * step_bytes(run))
