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

from collections.abc import Iterable

import torch
from torch import Tensor

from recollect.ops import triton as kernels
from recollect.ops.delta_rule import MAX_DIM, delta_rule_flops
from recollect.ops.external import offered
from recollect.ops.fused import use_kernels
from recollect.ops.op import op
from recollect.ops.precision import in_float32, product_dtype
from recollect.ops.recurrence import chunked, delta_states, over_time

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
    """The rule of KDA, e = beta k with beta v written, by chunks; on a GPU in one kernel."""
    if not _in_kernel(q):
        return channel_delta_rule(q, k, beta[..., None] * v, beta[..., None] * k, log_alpha)
    q, k, v, beta, log_alpha = _time_first(q, k, v, beta, log_alpha)
    return _joined(_by_head(q, k, part, beta, log_alpha)[0] for part in v.split(MAX_DIM, -1))


def gated_delta_rule_2(
    q: Tensor, k: Tensor, v: Tensor, erase: Tensor, write: Tensor | None, log_alpha: Tensor
) -> Tensor:
    """The rule of Gated DeltaNet-2, e = erase * k with write * v written, or v where there is no `write`; the same way."""
    if not _in_kernel(q):
        return channel_delta_rule(q, k, v if write is None else write * v, erase * k, log_alpha)
    q, k, v, erase, log_alpha = _time_first(q, k, v, erase, log_alpha)
    values = v.split(MAX_DIM, -1)
    gates = [None] * len(values) if write is None else write.transpose(1, 2).split(MAX_DIM, -1)
    parts = zip(values, gates, strict=True)
    return _joined(_by_channel(q, k, part, erase, gate, log_alpha)[0] for part, gate in parts)


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
        states, written = delta_states(to_end * k, since_start[..., -1, :, None].exp(), u, w)
        y = scores @ written + (since_start.exp() * q) @ torch.stack(states, dim=2)
    return y.flatten(2, 3)[:, :, :length]


def channel_delta_rule_flops(length: int, dim: int, dim_v: int) -> int:
    """Operations of the products and the solve above, for one head of one sequence; a pair's scores have three factors."""
    return delta_rule_flops(length, dim, dim_v, CHUNK, factors=3)


# The kernel's op, with a gate per head and with gates per channel. Time comes before heads, as projections leave it.


def _in_kernel(q: Tensor) -> bool:
    return use_kernels(q) and q.shape[-1] <= MAX_DIM


def _time_first(q: Tensor, k: Tensor, v: Tensor, *others: Tensor) -> list[Tensor]:
    dtype = product_dtype(q)
    return [x.transpose(1, 2) for x in (q.to(dtype), k.to(dtype), v.to(dtype), *others)]


def _joined(parts: Iterable[Tensor]) -> Tensor:
    """Columns of the values are independent, so wide ones are taken in parts."""
    parts = [y.transpose(1, 2) for y in parts]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


def _by_head_forward(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_alpha: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return kernels.channel_delta_rule.forward(q, k, v, beta, None, log_alpha)


def _by_head_backward(grad: Tensor, *saved: Tensor) -> tuple[Tensor, ...]:
    q, k, v, beta, log_alpha, _, *kept = saved  # and y between them
    grads = kernels.channel_delta_rule.backward(grad, q, k, v, beta, None, log_alpha, *kept)
    return tuple(x for x in grads if x is not None)


def _by_channel_forward(
    q: Tensor, k: Tensor, v: Tensor, erase: Tensor, write: Tensor | None, log_alpha: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return kernels.channel_delta_rule.forward(q, k, v, erase, write, log_alpha)


def _by_channel_backward(grad: Tensor, *saved: Tensor) -> tuple[Tensor, ...]:
    q, k, v, erase, write, log_alpha, _, *kept = saved
    grads = kernels.channel_delta_rule.backward(grad, q, k, v, erase, write, log_alpha, *kept)
    return tuple(grad.new_empty(0) if x is None else x for x in grads)


def _fake(q: Tensor, k: Tensor, v: Tensor, *others: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return kernels.channel_delta_rule.empty(q, v)


_by_head = op("kda", *offered("kda", _by_head_forward, _by_head_backward, _fake), _fake)
_by_channel = op("gated_delta_rule_2", _by_channel_forward, _by_channel_backward, _fake)
