"""What recurrences share: their formula, one token after another, and rows cut into chunks, with matrix products within a chunk
and a state between chunks."""

import math
from collections.abc import Callable
from typing import TypeVar

import torch
import torch.nn.functional as F
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


def chunked(x: Tensor, chunk: int) -> Tensor:
    """(batch, heads, length, dim) -> (batch, heads, chunks, chunk, dim), with zeros after the end."""
    return F.pad(x, (0, 0, 0, -x.shape[2] % chunk)).unflatten(2, (-1, chunk))


def states_before(written: Tensor, decay: Tensor, dim: int) -> Tensor:
    """The state before each chunk, from what each writes and the share of the state that each keeps; `dim` counts chunks."""
    states = [torch.zeros_like(written.select(dim, 0))]
    for written_n, decay_n in zip(written.unbind(dim)[:-1], decay.unbind(dim)[:-1], strict=True):
        states.append(decay_n * states[-1] + written_n)
    return torch.stack(states, dim=dim)


def delta_states(k: Tensor, decay: Tensor, u: Tensor, w: Tensor) -> tuple[list[Tensor], Tensor]:
    """The state S before each chunk of a delta rule, and what each writes, U - W S: keys, decays, U and W by chunk, axis 2."""
    state = u.new_zeros(*u.shape[:2], k.shape[-1], u.shape[-1])
    states, written = [], []
    for k_n, decay_n, u_n, w_n in zip(*(x.unbind(2) for x in (k, decay, u, w)), strict=True):
        states.append(state)
        written.append(u_n - w_n @ state)
        state = decay_n * state + k_n.mT @ written[-1]  # (batch, heads, dim, dim_v)
    return states, torch.stack(written, dim=2)


def segment_sum(log_a: Tensor) -> Tensor:
    """(..., length) -> (..., length, length): at (t, s) the sum over s < r <= t, -inf where s > t.

    Each segment is summed by itself: differences of one running sum would lose small decays after a large one.
    """
    size = log_a.shape[-1]
    at_or_after = torch.ones(size, size, dtype=torch.bool, device=log_a.device).tril()
    terms = log_a[..., None].expand(*log_a.shape, size).masked_fill(~at_or_after.tril(-1), 0)
    return terms.cumsum(-2).masked_fill(~at_or_after, -math.inf)
