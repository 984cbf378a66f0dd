"""Recurrences as they are written: one token after another."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

State = TypeVar("State")


def over_time(step: Callable[..., tuple[Tensor, State]], state: State, *inputs: Tensor, dim: int) -> Tensor:
    """What `step(*inputs at one time, state)` returns at all times, with the next state beside it; `dim` is that of time."""
    outputs = []
    for now in zip(*(x.unbind(dim) for x in inputs), strict=True):
        y, state = step(*now, state)
        outputs.append(y)
    return torch.stack(outputs, dim=dim)
