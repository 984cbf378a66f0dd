"""Rows for a cohort: the row numbers of a step, and their batch, for all seeds at once."""

import torch
from torch import Tensor

from recollect import rng
from recollect.tasks.base import Batch, Task, check_row
from recollect.train.device import drawing_device
from recollect.train.spec import TrainSpec

AHEAD = 2**22
"""How many tokens are drawn at once on a GPU."""


def training_rows(spec: TrainSpec, seeds: Tensor, step: int, steps: int = 1) -> Tensor:
    """The numbers of the rows that some steps train on: (seeds, steps * batch). Fresh rows, or the next of a shuffled set."""
    first, count = step * spec.batch, steps * spec.batch
    example = first + torch.arange(count, device=seeds.device)  # (steps * batch,), counted over the whole run
    if not spec.train_rows:
        return example.expand(len(seeds), -1)
    epoch, place = example // spec.train_rows, example % spec.train_rows
    shuffles = rng.stream(seeds.repeat_interleave(len(epoch)), "shuffle", epoch.repeat(len(seeds)))  # one per example
    rows = shuffles.bijection(spec.train_rows)(place.repeat(len(seeds))[:, None])
    return rows.view(len(seeds), -1)


def sample(task: Task, seeds: Tensor, purpose: str, rows: Tensor) -> Batch:
    """The rows (seeds, n) of each seed: a batch whose tensors begin with (seeds, n)."""
    n, place = rows.shape[1], drawing_device(seeds.device)
    batch = task.sample(rng.stream(seeds.to(place).repeat_interleave(n), purpose, rows.to(place).flatten()))
    return batch.map(lambda x: x.unflatten(0, (len(seeds), n)).to(seeds.device))


class Feed:
    """The batches of training, one per step, drawn when needed; on a GPU those of several steps at once.

    A draw is hundreds of small operations, and some wait for a result: too many for a GPU to do before each step.
    """

    def __init__(self, task: Task, spec: TrainSpec, seeds: Tensor):
        check_row(task)
        self.task, self.spec, self.seeds = task, spec, seeds
        ahead = AHEAD // (len(seeds) * spec.batch * task.row_length) if seeds.is_cuda else 1
        self.ahead = min(max(ahead, 1), 64)
        self.first, self.drawn = -self.ahead, None

    def __call__(self, step: int) -> Batch:
        """The batch of a step: each tensor (seeds, batch, ..)."""
        if self.drawn is None or not 0 <= step - self.first < self.ahead:
            rows = training_rows(self.spec, self.seeds.to(drawing_device(self.seeds.device)), step, self.ahead)
            drawn = sample(self.task, self.seeds, "train", rows)
            self.first, self.drawn = step, drawn.map(lambda x: x.unflatten(1, (self.ahead, -1)))
        return self.drawn.map(lambda x: x[:, step - self.first])
