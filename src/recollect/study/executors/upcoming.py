"""Compiles the steps of cohorts that are still to come while others train."""

from collections import deque
from collections.abc import Sequence

import torch

from recollect.study.cost import will_compile
from recollect.study.executors.base import own_code
from recollect.study.executors.sharing import PROCESSORS, load_of
from recollect.train.device import cores, gpus
from recollect.train.spec import RunSpec
from recollect.train.speed.ahead import Ahead
from recollect.train.speed.compile import AHEAD, allowed

ROOM = 0.5
"""The share of a GPU's memory that steps may hold while they are compiled: the rest is for the cohorts in training."""
MOST = 6
"""Steps that are compiled at once at most: each is compiled by a process with PyTorch and a context on the GPU."""


class Upcoming:
    """Cohorts that will be trained on a device, in their order: their steps are compiled in other processes, a few at a time, so
    that the cache of compiled code has them when their turn comes."""

    def __init__(self, device: str, workers: int):
        self.device = torch.device((gpus(device) or [device])[0])
        self.open = allowed(self.device)
        self.most = max(1, min(MOST, cores() // PROCESSORS - workers))
        self.queue: deque[tuple[RunSpec, int, float]] = deque()
        self.compiling: dict[Ahead, float] = {}  # and the bytes that each holds

    def expect(self, cohorts: Sequence[Sequence[RunSpec]]) -> None:
        """These cohorts come next; those are left out that are too short for compiling to pay, and users' own code, which runs
        only where it trains."""
        if not self.open:
            return
        self.queue.clear()
        for cohort in cohorts:
            run = cohort[0]
            if not own_code(run) and will_compile(run, len(cohort), AHEAD):
                self.queue.append((run, max(2, len(cohort)), load_of(cohort).held))
        self.advance()

    def advance(self) -> None:
        """Start as many as there is room for; to be called now and then."""
        self.compiling = {ahead: held for ahead, held in self.compiling.items() if not ahead.ready()}
        while self.queue and len(self.compiling) < self.most:
            run, members, held = self.queue[0]
            if self.compiling and held + sum(self.compiling.values()) > ROOM * self._memory():
                return
            self.queue.popleft()
            if held < ROOM * self._memory():  # else it is compiled when its turn comes
                self.compiling[Ahead(run, members, self.device, held)] = held

    def _memory(self) -> float:
        return torch.cuda.get_device_properties(self.device).total_memory

    def close(self) -> None:
        """End what is being compiled."""
        self.queue.clear()
        while self.compiling:
            self.compiling.popitem()[0].close()
