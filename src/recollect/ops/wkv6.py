"""The matrix-valued state of RWKV-6 (Peng et al. 2024, "Eagle and Finch"): decay per channel and token, bonus for the present.

    S_t = diag(w_t) S_{t-1} + k_t v_t^T
    y_t = (S_{t-1} + diag(u) k_t v_t^T)^T r_t

Glossary: r, k, v = receptance, key, value; w = e^{log_w} = decay in (0, 1); u = bonus; S = state of a head.
Shapes: r, k, log_w (batch, heads, length, dim), v (batch, heads, length, dim_v), u (heads, dim); S (batch, heads, dim, dim_v).

The fast form takes the row in chunks. The state goes from chunk to chunk. Within one, tokens of a later half read those
of the earlier half through the decays to and from the border between them, then each half does the same in itself: all
exponents are sums of log_w, never positive, so nothing overflows however strong the decay.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from recollect.ops.precision import wide
from recollect.ops.recurrence import chunked, states_before

CHUNK = 32
"""Tokens per chunk, a power of two: the fastest of 16, 32 and 64 for rows of 64 tokens with heads of 64."""


def wkv6_step(r: Tensor, k: Tensor, v: Tensor, log_w: Tensor, u: Tensor, S: Tensor) -> tuple[Tensor, Tensor]:
    """One token: r, k, log_w (batch, heads, dim), v (batch, heads, dim_v)."""
    kv = k[..., None] * v[..., None, :]
    y = (r[..., None] * (S + u[..., None] * kv)).sum(-2)
    return y, log_w.exp()[..., None] * S + kv


def wkv6(r: Tensor, k: Tensor, v: Tensor, log_w: Tensor, u: Tensor) -> Tensor:
    """All tokens, in chunks, in float32 at least: (batch, heads, length, dim_v)."""
    dtype, length = v.dtype, r.shape[2]
    chunk = min(CHUNK, 2 ** (length - 1).bit_length())
    # (batch, heads, chunks, chunk, dim)
    r, k, v, log_w = (chunked(t.to(wide(t.dtype)), chunk) for t in (r, k, v, log_w))
    after = log_w.cumsum(-2)  # log decay from the chunk's start through each token
    before = after - log_w
    present = (r * u[:, None, None] * k).sum(-1, keepdim=True) * v
    whole = after[..., -1:, :]
    added = (k * (whole - after).exp()).mT @ v  # what a chunk leaves: (batch, heads, chunks, dim, dim_v)
    S = states_before(added, whole.exp().mT, dim=2)
    y = (r * before.exp()) @ S + _within(r, k, v, before, after) + present
    return y.flatten(2, 3)[:, :, :length].to(dtype)


def _within(r: Tensor, k: Tensor, v: Tensor, before: Tensor, after: Tensor) -> Tensor:
    """What each token reads from earlier ones of its chunk."""
    half, y = r.shape[-2] // 2, torch.zeros_like(v)
    while half:
        (_, r_late), (k_early, _), (v_early, _) = (_halves(t, half) for t in (r, k, v))
        (_, before_late), (after_early, _) = _halves(before, half), _halves(after, half)
        border = after_early[..., -1:, :]
        scores = (r_late * (before_late - border).exp()) @ (k_early * (border - after_early).exp()).mT
        y = y + F.pad(scores @ v_early, (0, 0, half, 0)).flatten(-3, -2)  # (..., pairs of halves, 2 half, dim_v)
        half //= 2
    return y


def _halves(x: Tensor, half: int) -> tuple[Tensor, Tensor]:
    """(..., chunk, dim) as pairs of neighbours `half` long: the earlier and the later, (..., pairs, half, dim)."""
    x = x.unflatten(-2, (-1, 2, half))
    return x[..., 0, :, :], x[..., 1, :, :]


def wkv6_flops(length: int, dim: int, dim_v: int) -> int:
    """Operations of the products above, for one head of one sequence: within chunks, and through the state."""
    chunk = min(CHUNK, length)
    return length * ((chunk - 1) * (dim + dim_v) + 4 * dim * dim_v + 2 * (dim + dim_v))
