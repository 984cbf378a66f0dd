"""Rows cut into chunks: shared by the ops that use matrix products within chunks and a state between them."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def chunked(x: Tensor, chunk: int) -> Tensor:
    """(batch, heads, length, dim) -> (batch, heads, chunks, chunk, dim), with zeros after the end."""
    return F.pad(x, (0, 0, 0, -x.shape[2] % chunk)).unflatten(2, (-1, chunk))


def states_before(written: Tensor, decay: Tensor, dim: int) -> Tensor:
    """The state before each chunk, from what each writes and the share of the state that each keeps; `dim` counts chunks."""
    states = [torch.zeros_like(written.select(dim, 0))]
    for written_n, decay_n in zip(written.unbind(dim)[:-1], decay.unbind(dim)[:-1], strict=True):
        states.append(decay_n * states[-1] + written_n)
    return torch.stack(states, dim=dim)


def segment_sum(log_a: Tensor) -> Tensor:
    """(..., length) -> (..., length, length): at (t, s) the sum over s < r <= t, -inf where s > t.

    Each segment is summed by itself: differences of one running sum would lose small decays after a large one.
    """
    size = log_a.shape[-1]
    at_or_after = torch.ones(size, size, dtype=torch.bool, device=log_a.device).tril()
    terms = log_a[..., None].expand(*log_a.shape, size).masked_fill(~at_or_after.tril(-1), 0)
    return terms.cumsum(-2).masked_fill(~at_or_after, -math.inf)
