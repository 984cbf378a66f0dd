"""When a cohort's step is compiled: on a GPU, once, where what is left to train pays for it.

A cohort starts uncompiled. A few of its steps are timed, and if compiling would save more time than it costs, forward and
backward are compiled (train/speed/ahead.py) for the number of members there are then; where that was done before, the code only
has to be loaded, which pays sooner. Compiled code works for that number only,
so the row of a member that ends is filled with a copy of another one until half of the rows are free; then it is compiled again,
for half, if that pays too.
RECOLLECT_COMPILE=0 turns it off.
"""

import os
import time
from collections.abc import Callable

import torch

BACKEND = "inductor"
WARM, TIMED = 4, 4
"""Steps before the clock starts, and steps timed."""
COST = 40.0
"""Seconds that compiling is expected to take: an assumption."""
AHEAD = 20.0
"""Seconds that it has to save where it is done while other cohorts train: an assumption."""
TAKEN = 8.0
"""Seconds that it takes to load code from the cache: an assumption."""
SAVED = 0.5
"""The share of a step's time that it is expected to save, or that half of the members save: an assumption."""


def allowed(device: torch.device) -> bool:
    """Whether cohorts on this device may be compiled at all."""
    return device.type == "cuda" and os.environ.get("RECOLLECT_COMPILE") != "0"


def worth(step: float, left: int, cost: float = COST) -> bool:
    """Whether compiling pays where a step takes so many seconds and so many are left."""
    return left * step * SAVED > cost


class Pace:
    """Times the first steps of a cohort, and decides when compiling pays."""

    def __init__(self, device: torch.device):
        self.device, self.seen, self.since = device, 0, 0.0
        self.open = allowed(device)

    def pays(self, left: int, compiled: Callable[[], bool]) -> bool:
        """Called before each step with how many are left: true once, when compiling is known to pay. `compiled`: whether the
        code is in the cache, or will be soon."""
        if not self.open:
            return False
        self.seen += 1
        if self.seen == WARM + 1:
            self.since = self._now()
        elif self.seen == WARM + TIMED + 1:
            self.open = False
            step = (self._now() - self.since) / TIMED
            return worth(step, left, TAKEN if compiled() else COST)
        return False

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()


def places(members: int, before: int) -> int:
    """How many rows a compiled cohort of `before` keeps when this many members stay: the same, or halved until they fit."""
    while members <= before // 2 and before > 2:
        before = -(-before // 2)
    return before
