"""How many members of a cohort fit into a GPU's memory, measured on training steps of two and of four members."""

import torch

from recollect.train.cohort import Cohort
from recollect.train.spec import RunSpec

SHARE = 0.9
"""The share of free memory that is counted on; the rest is for what a step of a small cohort does not show."""
_peaks: dict[tuple[str, torch.device], tuple[int, int]] = {}
"""Bytes that a step of two members takes, and of four, by shape and device."""


def members_that_fit(run: RunSpec, device: torch.device) -> int:
    """How many runs of this shape can train at once in the memory that is free now; at least one."""
    if (run.shape, device) not in _peaks:
        _peaks[run.shape, device] = _peak(run, 2, device), _peak(run, 4, device)
    first, more = _peaks[run.shape, device]
    each = max(1.0, (more - first) / 2)
    shared = max(0.0, first - 2 * each)
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info(device)
    return max(1, int((SHARE * free - shared) / each))


def _peak(run: RunSpec, members: int, device: torch.device) -> int:
    torch.cuda.init()  # in a fresh process the counters below do not exist yet
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    Cohort([run] * members, device).advance(0)
    return torch.cuda.max_memory_allocated(device) - before
