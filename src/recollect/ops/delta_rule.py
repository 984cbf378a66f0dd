"""The delta rule (Schlag et al. 2021; DeltaNet, Yang et al. 2024), and with a decay (Gated DeltaNet, Yang et al. 2025).

    S_t = alpha_t (I - beta_t k_t k_t^T) S_{t-1} + beta_t k_t v_t^T        y_t = S_t^T q_t

S (dim, dim_v) is the papers' state transposed. alpha_t in [0, 1] forgets, beta_t in (0, 2) writes; without `log_alpha`
alpha is 1. With u_t = beta_t (v_t - alpha_t S_{t-1}^T k_t), what is written, S_t = alpha_t S_{t-1} + k_t u_t^T. So in
a chunk that starts from S, with D_ij = alpha_{j+1} .. alpha_i and a_i = alpha_1 .. alpha_i, all u come from one
triangular system:

    (1 + A) U = beta (V - a K S)        A_ij = beta_i D_ij k_i . k_j  for j < i        Y = a Q S + (D * Q K^T) U

Decays are products of numbers of at most 1, formed as exp of sums, never as quotients: none overflows, alpha may be 0.

Shapes: q, k (batch, heads, length, dim), v (batch, heads, length, dim_v), beta, log_alpha (batch, heads, length).
"""

import torch
from torch import Tensor

from recollect.ops import triton as kernels
from recollect.ops.external import offered
from recollect.ops.fused import use_kernels
from recollect.ops.op import op
from recollect.ops.precision import in_float32, product_dtype
from recollect.ops.recurrence import chunked, delta_states, over_time, segment_sum

CHUNK = 64  # tokens whose writes are found together
MAX_DIM = 128
"""Larger states do not fit the kernel's registers."""


def delta_rule_step(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_alpha: Tensor | None, state: Tensor
) -> tuple[Tensor, Tensor]:
    """One token, q, k (batch, heads, dim), beta (batch, heads): y and the next state (batch, heads, dim, dim_v)."""
    if log_alpha is not None:
        state = log_alpha.exp()[..., None, None] * state
    held = (k[..., None, :] @ state)[..., 0, :]  # what the state holds for the key
    state = state + k[..., :, None] * (beta[..., None] * (v - held))[..., None, :]
    return (q[..., None, :] @ state)[..., 0, :], state


def delta_rule_definition(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_alpha: Tensor | None = None) -> Tensor:
    """One token after another."""
    state = q.new_zeros(*q.shape[:2], q.shape[-1], v.shape[-1])
    return over_time(delta_rule_step, state, q, k, v, beta, log_alpha, dim=2)


def delta_rule(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_alpha: Tensor | None = None) -> Tensor:
    """The same by chunks, on a GPU in one kernel."""
    if not use_kernels(q) or max(q.shape[-1], v.shape[-1]) > MAX_DIM:
        return _by_chunks(q, k, v, beta, log_alpha)
    dtype = product_dtype(q)
    time_first = [x.to(dtype).transpose(1, 2) for x in (q, k, v)] + [beta.transpose(1, 2)]
    y = _plain(*time_first)[0] if log_alpha is None else _gated(*time_first, log_alpha.transpose(1, 2))[0]
    return y.transpose(1, 2)


@in_float32
def _by_chunks(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_alpha: Tensor | None) -> Tensor:
    """One triangular solve for all chunks, then the state from chunk to chunk."""
    length = q.shape[2]
    chunk = min(CHUNK, length)
    q, k, v, beta = (chunked(x, chunk) for x in (q, k, v, beta[..., None]))  # (batch, heads, chunks, chunk, ...)
    within, since_start = _decays(beta, log_alpha)
    alone = q.shape[2] == 1  # a single chunk starts from nothing
    right = beta * (v if alone else torch.cat([v, since_start * k], dim=-1))
    solved = torch.linalg.solve_triangular(beta * (k @ k.mT) * within, right, upper=False, unitriangular=True)
    scores = (q @ k.mT) * within
    if alone:
        y = scores @ solved
    else:
        u, w = solved.split((v.shape[-1], k.shape[-1]), dim=-1)
        to_end = within[..., -1, :, None]
        states, written = delta_states(to_end * k, since_start[..., -1:, :], u, w)
        read = [q_n @ state for q_n, state in zip((since_start * q).unbind(2), states, strict=True)]
        y = scores @ written + torch.stack(read, dim=2)
    return y.flatten(2, 3)[:, :, :length]


def delta_rule_flops(length: int, dim: int, dim_v: int, longest: int = CHUNK, factors: int = 2) -> int:
    """Operations of the matrix products and the solve above, for one head of one sequence, in chunks of at most `longest`; each
    term of a pair's scores has so many `factors`."""
    chunk = min(longest, length)
    chunks = -(-length // chunk)
    columns = dim_v if chunks == 1 else dim_v + dim
    between = 0 if chunks == 1 else 6 * chunk * dim * dim_v
    return chunks * (2 * chunk**2 * (factors * dim + dim_v) + solve_flops(chunk, columns) + between)


def solve_flops(rows: int, columns: int) -> int:
    """Operations of a solve with a triangular matrix whose diagonal is 1."""
    return rows * (rows - 1) * columns


def _decays(beta: Tensor, log_alpha: Tensor | None) -> tuple[Tensor, Tensor]:
    """D (..., chunk, chunk), zero above the diagonal, and a (..., chunk, 1)."""
    if log_alpha is None:
        return beta.new_ones(beta.shape[-2], beta.shape[-2]).tril(), torch.ones_like(beta)
    log_alpha = chunked(log_alpha[..., None], beta.shape[-2])
    return segment_sum(log_alpha[..., 0]).exp(), log_alpha.cumsum(-2).exp()


# The kernel's op, with a decay and without. Time comes before heads, as projections leave it and as norms take it.


def _plain_forward(q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
    return _gated_forward(q, k, v, beta, None)


def _gated_forward(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_alpha: Tensor | None) -> tuple[Tensor, Tensor]:
    return kernels.delta_rule.forward(q, k, v, beta, log_alpha)


def _backward(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, *saved: Tensor) -> tuple[Tensor, ...]:
    *log_alpha, _, states = saved  # and y between them
    return tuple(kernels.delta_rule.backward(grad, q, k, v, beta, log_alpha[0] if log_alpha else None, states))


def _fake(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_alpha: Tensor | None = None) -> tuple[Tensor, Tensor]:
    rows, length, heads, dim = q.shape
    return v.new_empty(v.shape), v.new_empty(rows, kernels.delta_rule.chunks(length) - 1, heads, dim, v.shape[-1])


_plain = op("delta_rule", *offered("delta_rule", _plain_forward, _backward, _fake), _fake)
_gated = op("gated_delta_rule", *offered("gated_delta_rule", _gated_forward, _backward, _fake), _fake)
