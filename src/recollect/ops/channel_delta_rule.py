"""The delta rule with a decay per key channel: Kimi Delta Attention (KDA, Kimi Team 2025) and Gated DeltaNet-2 (2026).

    S_t = (I - k_t e_t^T) diag(alpha_t) S_{t-1} + k_t v_t^T        y_t = S_t^T q_t

S (dim, dim_v) is the state; alpha_t decays each of its rows at its own rate; e_t is read from it before v_t is written.
KDA has e = beta k and writes beta v; Gated DeltaNet-2 has e = b * k and writes w * v, with gates b and w per channel.

With u_t = v_t - S_{t-1}^T diag(alpha_t) e_t, what is written, S_t = diag(alpha_t) S_{t-1} + k_t u_t^T. So in a chunk that starts
from S, with D_ijc = alpha_{j+1,c} .. alpha_{i,c} and a_i = alpha_1 .. alpha_i, all u come from one triangular system:

    (1 + A) U = V - (a * E) S        A_ij = sum_c e_ic D_ijc k_jc  for j < i
    Y = (a * Q) S + B U              B_ij = sum_c q_ic D_ijc k_jc  for j <= i

Every decay is exp of a sum of logs that is at most 0, so none overflows.

Shapes: q, k, e, log_alpha (batch, heads, length, dim), v (batch, heads, length, dim_v), beta (batch, heads, length).
"""

import torch
from torch import Tensor

from recollect.ops.chunks import chunked
from recollect.ops.delta_rule import solve_flops
from recollect.ops.external import may_serve, offered
from recollect.ops.op import op
from recollect.ops.precision import half_dtype, in_float32
from recollect.ops.recurrence import over_time

CHUNK = 16  # tokens between which each pair has its own decays: chunk x chunk x dim numbers


def channel_delta_rule_step(
    q: Tensor, k: Tensor, v: Tensor, e: Tensor, log_alpha: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """One token, q, k, e, log_alpha (batch, heads, dim): y and the next state (batch, heads, dim, dim_v)."""
    state = log_alpha.exp()[..., :, None] * state
    written = v - (e[..., None, :] @ state)[..., 0, :]
    state = state + k[..., :, None] * written[..., None, :]
    return (q[..., None, :] @ state)[..., 0, :], state


def channel_delta_rule_definition(q: Tensor, k: Tensor, v: Tensor, e: Tensor, log_alpha: Tensor) -> Tensor:
    """One token after another."""
    state = q.new_zeros(*q.shape[:2], q.shape[-1], v.shape[-1])
    return over_time(channel_delta_rule_step, state, q, k, v, e, log_alpha, dim=2)


def kda(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_alpha: Tensor) -> Tensor:
    """The rule of KDA, e = beta k with beta v written, by chunks; through another library's kernel where there is one."""
    if (dtype := half_dtype(q)) is None or not may_serve(q):
        return channel_delta_rule(q, k, beta[..., None] * v, beta[..., None] * k, log_alpha)
    by_time = [x.transpose(1, 2) for x in (q.to(dtype), k.to(dtype), v.to(dtype), beta, log_alpha)]
    return _either_kda(*by_time)[0].transpose(1, 2).to(q.dtype)


@in_float32
def channel_delta_rule(q: Tensor, k: Tensor, v: Tensor, e: Tensor, log_alpha: Tensor) -> Tensor:
    """The definition by chunks: one triangular solve for all of them, then the state from chunk to chunk."""
    length = q.shape[2]
    chunk = min(CHUNK, length)
    q, k, v, e, log_alpha = (chunked(x, chunk) for x in (q, k, v, e, log_alpha))  # (batch, heads, chunks, chunk, ...)
    since_start = log_alpha.cumsum(-2)
    between = since_start[..., :, None, :] - since_start[..., None, :, :]  # (batch, heads, chunks, chunk, chunk, dim)
    decayed = between.clamp(max=0).exp() * k[..., None, :, :]
    erased, scores = ((x[..., :, None, :] * decayed).sum(-1).tril() for x in (e, q))
    alone = q.shape[2] == 1  # a single chunk starts from nothing
    right = v if alone else torch.cat([v, since_start.exp() * e], dim=-1)
    solved = torch.linalg.solve_triangular(erased, right, upper=False, unitriangular=True)
    if alone:
        y = scores @ solved
    else:
        u, w = solved.split((v.shape[-1], k.shape[-1]), dim=-1)
        to_end = (since_start[..., -1:, :] - since_start).exp()
        states, written = _between(to_end * k, since_start[..., -1, :, None].exp(), u, w)
        y = scores @ written + (since_start.exp() * q) @ states
    return y.flatten(2, 3)[:, :, :length]


def _between(k: Tensor, decay: Tensor, u: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """The state before each chunk, and what each chunk writes, U - W S."""
    state = u.new_zeros(*u.shape[:2], k.shape[-1], u.shape[-1])
    states, written = [], []
    for k_n, decay_n, u_n, w_n in zip(*(x.unbind(2) for x in (k, decay, u, w)), strict=True):
        states.append(state)
        written.append(u_n - w_n @ state)
        state = decay_n * state + k_n.mT @ written[-1]  # (batch, heads, dim, dim_v)
    return torch.stack(states, dim=2), torch.stack(written, dim=2)


def channel_delta_rule_flops(length: int, dim: int, dim_v: int) -> int:
    """Operations of the products and the solve above, for one head of one sequence; a pair's scores have three factors."""
    chunk = min(CHUNK, length)
    chunks = -(-length // chunk)
    columns = dim_v if chunks == 1 else dim_v + dim
    between = 0 if chunks == 1 else 6 * chunk * dim * dim_v
    return chunks * (chunk**2 * (6 * dim + 2 * dim_v) + solve_flops(chunk, columns) + between)


# KDA's rule as an op that fla's kernel may serve. Time comes before heads.


def _kda_by_time(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_alpha: Tensor) -> Tensor:
    q, k, v, beta, log_alpha = (x.transpose(1, 2) for x in (q, k, v, beta[..., None], log_alpha))
    return channel_delta_rule(q, k, beta * v, beta * k, log_alpha).transpose(1, 2)


def _kda_forward(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_alpha: Tensor) -> tuple[Tensor]:
    return (_kda_by_time(q, k, v, beta, log_alpha).contiguous(),)


def _kda_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_alpha: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    differentiate = torch.func.vjp(_kda_by_time, q, k, v, beta, log_alpha)[1]
    dq, dk, dv, dbeta, dlog_alpha = (x.contiguous() for x in differentiate(grad))
    return dq, dk, dv, dbeta, dlog_alpha


def _kda_fake(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_alpha: Tensor) -> tuple[Tensor]:
    return (v.new_empty(v.shape),)


_either_kda = op("kda", *offered("kda", _kda_forward, _kda_backward, _kda_fake), _kda_fake)
