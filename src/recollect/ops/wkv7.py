"""The matrix-valued state of RWKV-7 (Peng et al. 2025, "Goose"): a generalised delta rule.

    S_t = S_{t-1} (diag(w_t) + a_t b_t^T) + v_t k_t^T
    y_t = S_t r_t

Glossary: r, k, v = receptance, key, value; w = e^{log_w} = decay; a, b = what is removed from the state, and where it is added
back (in RWKV-7 a is minus a normalised key, b that key times a rate in (0, 1)); S = state of a head, (dim_v, dim).
Shapes: r, k, log_w, a, b (batch, heads, length, dim), v (batch, heads, length, dim_v).

The fast form takes the row in chunks. With S the state at a chunk's start, d_t the decay from there through token t,
and tokens as rows, what the rule removes in the chunk, u_t = S_{t-1} a_t, solves a triangular system:

    (I - tril_{<}(a~ b^^T)) U = a~ S^T + tril_{<}(a~ k^^T) V,    a~_t = d_{t-1} a_t,   b^_t = b_t / d_t,   k^_t = k_t / d_t
    Y = r~ S^T + tril(r~ b^^T) U + tril(r~ k^^T) V,              r~_t = d_t r_t

Dividing by d_t is safe since RWKV-7 keeps log_w above -e^{-1/2}: d_t > 6e-5 in a chunk of 16.
"""

import torch
from torch import Tensor

from recollect.ops.precision import wide
from recollect.ops.recurrence import chunked

CHUNK = 16
"""Tokens per chunk."""


def wkv7_step(r: Tensor, k: Tensor, v: Tensor, log_w: Tensor, a: Tensor, b: Tensor, S: Tensor) -> tuple[Tensor, Tensor]:
    """One token: r, k, log_w, a, b (batch, heads, dim), v (batch, heads, dim_v)."""
    u = (S * a[..., None, :]).sum(-1, keepdim=True)  # (batch, heads, dim_v, 1)
    S = S * log_w.exp()[..., None, :] + u * b[..., None, :] + v[..., None] * k[..., None, :]
    return (S * r[..., None, :]).sum(-1), S


def wkv7(r: Tensor, k: Tensor, v: Tensor, log_w: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """All tokens, in chunks, in float32 at least: (batch, heads, length, dim_v)."""
    dtype, length = v.dtype, r.shape[2]
    # (batch, heads, chunks, chunk, dim)
    r, k, v, log_w, a, b = (chunked(x.to(wide(x.dtype)), CHUNK) for x in (r, k, v, log_w, a, b))
    d = log_w.cumsum(-2)
    r, a = r * d.exp(), a * (d - log_w).exp()
    b, k = b * (-d).exp(), k * (-d).exp()
    left = torch.eye(CHUNK, device=r.device, dtype=r.dtype) - (a @ b.mT).tril(-1)
    right = torch.cat([a, (a @ k.mT).tril(-1) @ v], dim=-1)
    solved = torch.linalg.solve_triangular(left, right, upper=False, unitriangular=True)
    from_state, from_chunk = solved.split([a.shape[-1], v.shape[-1]], dim=-1)  # U = from_state S^T + from_chunk
    S, U = _states(from_state, from_chunk, v.mT @ k, b, d[..., -1:, :].exp())
    y = r @ S.mT + (r @ b.mT).tril() @ U + (r @ k.mT).tril() @ v
    return y.flatten(2, 3)[:, :, :length].to(dtype)


def _states(from_state: Tensor, from_chunk: Tensor, added: Tensor, b: Tensor, decay: Tensor) -> tuple[Tensor, Tensor]:
    """The state at each chunk's start, and what the rule removes in it; `added` (batch, heads, chunks, dim_v, dim)."""
    S, states, taken = torch.zeros_like(added[:, :, 0]), [], []
    for n in range(added.shape[2]):
        states.append(S)
        taken.append(from_state[:, :, n] @ S.mT + from_chunk[:, :, n])
        S = (S + taken[-1].mT @ b[:, :, n] + added[:, :, n]) * decay[:, :, n]
    return torch.stack(states, dim=2), torch.stack(taken, dim=2)


def wkv7_flops(length: int, dim: int, dim_v: int) -> int:
    """Operations of the products above, for one head of one sequence."""
    pairs = 2 * 4 * CHUNK * dim + 2 * 3 * CHUNK * dim_v + CHUNK * (dim + dim_v)  # scores, reads, the triangular system
    return length * (pairs + 2 * 4 * dim * dim_v)
