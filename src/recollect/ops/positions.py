"""Positions inside attention: rotary, ALiBi, hard ALiBi, relative.

Rotary (Su et al. 2021): pairs of coordinates of q and k are rotated by an angle that grows with the position.
ALiBi (Press et al. 2022): a score is lowered by slope x distance, one slope per head.
Hard ALiBi (Jelassi et al. 2024): head h sees only the last h tokens (its own included); a last share of the heads sees all.
Relative (T5, Raffel et al. 2020): a learned number per head and distance bucket is added to the score.
"""

import math

import torch
from torch import Tensor

from recollect.ops.precision import in_float32

BUCKETS, FURTHEST = 32, 128
"""How many buckets T5's relative positions have, and the distance from which on all are in the last."""


def rotary(x: Tensor, position: Tensor, fraction: float = 1.0) -> Tensor:
    """Rotate the first `fraction` of the dims of x (..., length, dim) by `position` (length,), halves paired (GPT-NeoX)."""
    dims = int(x.shape[-1] * fraction) // 2 * 2
    frequency = 10_000.0 ** (-torch.arange(0, dims, 2, device=x.device, dtype=torch.float32) / dims)  # (dims/2,)
    angle = position.to(torch.float32)[:, None] * frequency  # (length, dims/2)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b, rest = x[..., : dims // 2], x[..., dims // 2 : dims], x[..., dims:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], dim=-1)


def turned(x: Tensor, angle: Tensor) -> Tensor:
    """x (..., dim) with its first pairs of neighbouring dims, one per `angle` (..., angles), rotated by it (Mamba-3)."""
    dims = 2 * angle.shape[-1]
    (a, b), rest = x[..., :dims].unflatten(-1, (-1, 2)).unbind(-1), x[..., dims:]
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2), rest], dim=-1)


@in_float32
def turned_along(x: Tensor, steps: Tensor) -> Tensor:
    """`turned` by the sum of all steps so far: x (batch, length, ..., dim), steps (batch, length, ..., angles)."""
    return turned(x, steps.cumsum(1))


def distance(queries: Tensor, keys: Tensor) -> Tensor:
    """How far each key lies before each query: (queries, keys)."""
    return queries[:, None] - keys[None, :]


def alibi(heads: int, distances: Tensor, dtype: torch.dtype) -> Tensor:
    """ALiBi's bias for `distances` (queries, keys): (heads, queries, keys); slopes 2^(-8/n), 2^(-16/n), .. over n heads."""
    slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1, device=distances.device) / heads)
    return (-slopes[:, None, None] * distances).to(dtype)


def hard_alibi(heads: int, distances: Tensor, dtype: torch.dtype) -> Tensor:
    """Head h < heads/2 (at least one) sees the last h+1 tokens, the others all: (heads, queries, keys)."""
    local = max(1, heads // 2) if heads > 1 else 0
    reach = torch.full((heads,), torch.iinfo(torch.int64).max, device=distances.device)
    reach[:local] = torch.arange(1, local + 1, device=distances.device)
    seen = torch.zeros(heads, *distances.shape, dtype=dtype, device=distances.device)
    return seen.masked_fill(distances >= reach[:, None, None], -math.inf)


def bucket(distances: Tensor) -> Tensor:
    """T5's causal distance buckets: one per distance for the first half, then logarithmic up to `FURTHEST`."""
    near = BUCKETS // 2
    distances = distances.clamp(min=0)
    logarithm = torch.log(distances.clamp(min=1).double() / near) / math.log(FURTHEST / near)
    far = near + (logarithm * (BUCKETS - near)).long()
    return torch.where(distances < near, distances, far.clamp(max=BUCKETS - 1))
