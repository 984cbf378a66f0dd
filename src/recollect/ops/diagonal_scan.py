"""A diagonal linear recurrence with complex coefficients that are the same at all times (LRU, Orvieto et al. 2023).

    h_t = lambda * h_{t-1} + u_t        lambda = exp(-decay + i angle), per channel

Complex numbers are pairs of real ones here, so that a compiler can fuse the operations. In a chunk that starts from h,
h_t = lambda^t h + sum_{s <= t} lambda^(t - s) u_s: for each channel a product with one triangular matrix of powers.

Shapes: u (batch, length, channels, 2), real and imaginary parts; decay > 0 and angle (channels,); the result as u.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from recollect.ops.precision import in_float32

CHUNK = 32


def diagonal_scan_step(u: Tensor, decay: Tensor, angle: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    """One token: u and h (batch, channels, 2); the output is the next state."""
    h = complex_product(_power(decay, angle, torch.ones_like(decay)), h) + u
    return h, h


@in_float32
def diagonal_scan(u: Tensor, decay: Tensor, angle: Tensor) -> Tensor:
    """All tokens, by chunks."""
    length = u.shape[1]
    chunk = min(CHUNK, length)
    u = F.pad(u, (0, 0, 0, 0, 0, -length % chunk)).unflatten(1, (-1, chunk))  # (batch, chunks, chunk, channels, 2)
    within = _matrix(decay, angle, chunk)
    flat = u.permute(3, 2, 4, 0, 1).flatten(3).flatten(1, 2)  # (channels, 2 chunk, batch chunks)
    h = (within @ flat).unflatten(1, (chunk, 2)).unflatten(-1, (u.shape[0], -1)).permute(3, 4, 1, 0, 2)
    if u.shape[1] > 1:
        since_start = _power(decay, angle, torch.arange(1, chunk + 1, device=u.device, dtype=decay.dtype)[:, None])
        before = [torch.zeros_like(h[:, 0, -1])]
        for last in h[:, :-1, -1].unbind(1):
            before.append(last + complex_product(since_start[-1], before[-1]))
        h = h + complex_product(since_start, torch.stack(before, dim=1)[:, :, None])
    return h.flatten(1, 2)[:, :length]


def _power(decay: Tensor, angle: Tensor, exponent: Tensor) -> Tensor:
    """lambda to the power of `exponent` >= 0: (..., channels, 2)."""
    size, turn = (-decay * exponent).exp(), angle * exponent
    return torch.stack([size * turn.cos(), size * turn.sin()], dim=-1)


def complex_product(a: Tensor, b: Tensor) -> Tensor:
    """The product of complex numbers (..., 2)."""
    (a_re, a_im), (b_re, b_im) = a.unbind(-1), b.unbind(-1)
    return torch.stack([a_re * b_re - a_im * b_im, a_re * b_im + a_im * b_re], dim=-1)


def _matrix(decay: Tensor, angle: Tensor, size: int) -> Tensor:
    """lambda^(t - s) for s <= t, each power as the real matrix that multiplies by it: (channels, 2 size, 2 size)."""
    steps = torch.arange(size, device=decay.device, dtype=decay.dtype)
    apart = (steps[:, None] - steps).clamp(min=0)
    re, im = _power(decay, angle, apart[..., None]).unbind(-1)  # (size, size, channels)
    re, im = (t.movedim(-1, 0).tril() for t in (re, im))
    return torch.stack([torch.stack([re, -im], dim=-1), torch.stack([im, re], dim=-1)], dim=2).flatten(3).flatten(1, 2)


def diagonal_scan_flops(length: int, channels: int) -> int:
    """Operations of the products with matrices of powers, for one sequence."""
    chunk = min(CHUNK, length)
    return -(-length // chunk) * 2 * (2 * chunk) ** 2 * channels
