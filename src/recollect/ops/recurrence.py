"""Recurrences by their formula: one token after another."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

State = TypeVar("State")


def over_time(
    step: Callable[..., tuple[Tensor, State]], state: State, first: Tensor, *others: Tensor | None, dim: int
) -> Tensor:
    """The outputs at all times of `step(*inputs at one time, state) -> output, next state`; time is axis `dim` of the inputs."""
    times = first.unbind(dim)
    rest = [[None] * len(times) if x is None else x.unbind(dim) for x in others]
    outputs = []
    for now in zip(times, *rest, strict=True):
        y, state = step(*now, state)
        outputs.append(y)
    return torch.stack(outputs, dim=dim)
