"""Rows for a cohort: which row numbers a step takes, and the batch they stand for, for all seeds at once."""

import torch
from torch import Tensor

from recollect import rng
from recollect.tasks.base import Batch, Task
from recollect.train.run import TrainSpec


def training_rows(spec: TrainSpec, seeds: Tensor, step: int) -> Tensor:
    """The numbers of the rows that a step trains on: (seeds, batch). Fresh rows, or the next of a shuffled fixed set."""
    example = step * spec.batch + torch.arange(spec.batch, device=seeds.device)  # (batch,), counted over the whole run
    if not spec.train_rows:
        return example.expand(len(seeds), -1)
    epoch, place = example // spec.train_rows, example % spec.train_rows
    shuffles = rng.stream(seeds.repeat_interleave(len(epoch)), "shuffle", epoch.repeat(len(seeds)))  # one an example
    rows = shuffles.bijection(spec.train_rows)(place.repeat(len(seeds))[:, None])
    return rows.view(len(seeds), -1)


def sample(task: Task, seeds: Tensor, purpose: str, rows: Tensor) -> Batch:
    """The rows (seeds, n) of each seed: a batch whose tensors begin with (seeds, n)."""
    n = rows.shape[1]
    batch = task.sample(rng.stream(seeds.repeat_interleave(n), purpose, rows.flatten()))
    return batch.map(lambda x: x.unflatten(0, (len(seeds), n)))
