"""One extension of each kind, offered to recollect by the entry points in pyproject.toml."""

from typing import ClassVar

import torch
from pydantic import Field
from torch import nn

from recollect.study.executors.local import InProcess
from recollect.study.search.base import Search
from recollect.tasks import Batch, Task
from recollect.train.optimisers.base import Optimiser
from recollect.train.schedules import Schedule


class Shift(nn.Module):
    """A mixer: each token sees the one before it."""

    def __init__(self, width: int, *, gain: float = 1.0):
        super().__init__()
        self.out, self.gain = nn.Linear(width, width), gain

    def forward(self, x):
        return self.out(nn.functional.pad(x, (0, 0, 1, -1))) * self.gain


class Echo(Task):
    """A task: what was the first token?"""

    length: int = Field(default=4, ge=2)
    words: int = Field(default=8, ge=2)

    @property
    def vocabulary(self) -> int:
        return self.words

    @property
    def row_length(self) -> int:
        return self.length

    def sample(self, stream):
        tokens = stream.integers(self.length, 0, self.words)
        last = torch.full_like(tokens[:, :1], self.length - 1)
        return Batch(tokens, positions=last, answers=tokens[:, :1], query=last, source=torch.zeros_like(last))


class Sign(Optimiser):
    """An optimiser: steps of the learning rate's size, against the gradient's sign and that of its running mean."""

    keep: float = Field(default=0.5, ge=0, lt=1)
    """What is kept of the running mean."""

    def start(self, params):
        return {"trace": {name: torch.zeros_like(p) for name, p in params.items()}}

    def step(self, params, grads, state, groups, number):
        for group in groups:
            for name in group.names:
                lr, keep = group.like(params[name], "lr", "keep")
                trace = state["trace"][name]
                trace.mul_(keep).add_(grads[name])
                params[name].sub_(lr * trace.sign())


class Halves(Schedule):
    """A schedule: the full rate, then a share of it."""

    late: float = Field(default=0.1, gt=0, le=1)
    """The share of the rate in the second half."""

    def after_warmup(self, step, warmup, steps):
        return 1.0 if step < steps // 2 else self.late


class Ends(Search):
    """A search: the smallest and the largest rate only."""

    kind: str = "ends"

    def wanted(self, runs, accuracy, failed):
        rates = {run.train.lr for run in runs}
        return [run for run in runs if run.train.lr in (min(rates), max(rates))]


class Shy(InProcess):
    """An executor: training in this process, and a note of every cohort."""

    cohorts: ClassVar[list[int]] = []

    def submit(self, job, saved):
        self.cohorts.append(len(job.runs))
        super().submit(job, saved)
