"""Gated linear attention (GLA, Yang et al. 2023): linear attention whose state fades, each row of it at its own rate.

    S_t = diag(alpha_t) S_{t-1} + k_t^T v_t        y_t = q_t S_t

Written out, y_t = sum_{s <= t} sum_c q_tc (alpha_{s+1,c} .. alpha_{t,c}) k_sc v_s. The paper's parallel form divides k
by its product of alphas, which overflows. Here every decay is exp of a sum of logs that is at most 0: from the start of a
chunk, to its end, or between two tokens of one chunk.

Shapes: q, k, log_alpha (batch, heads, length, dim), v (batch, heads, length, dim_v); log_alpha <= 0 and finite.
"""

import torch
from torch import Tensor

from recollect.ops.external import may_serve, offered
from recollect.ops.op import op
from recollect.ops.precision import half_dtype, in_float32
from recollect.ops.recurrence import chunked, over_time, states_before

CHUNK = 16  # tokens between which each pair has its own decays: chunk x chunk x dim numbers


def gated_linear_attention_step(
    q: Tensor, k: Tensor, v: Tensor, log_alpha: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """One token, q, k, log_alpha (batch, heads, dim): y and the next state (batch, heads, dim, dim_v)."""
    state = log_alpha.exp()[..., :, None] * state + k[..., :, None] * v[..., None, :]
    return (q[..., None, :] @ state)[..., 0, :], state


def gated_linear_attention_definition(q: Tensor, k: Tensor, v: Tensor, log_alpha: Tensor) -> Tensor:
    """One token after another."""
    state = q.new_zeros(*q.shape[:2], q.shape[-1], v.shape[-1])
    return over_time(gated_linear_attention_step, state, q, k, v, log_alpha, dim=2)


def gated_linear_attention(q: Tensor, k: Tensor, v: Tensor, log_alpha: Tensor) -> Tensor:
    """The same by chunks, through another library's kernel where there is one."""
    dtype = half_dtype(q)
    if dtype is None or not may_serve(q.device):
        return _by_chunks(q, k, v, log_alpha)
    by_time = [x.transpose(1, 2) for x in (q.to(dtype), k.to(dtype), v.to(dtype), log_alpha)]
    return _either(*by_time)[0].transpose(1, 2).to(q.dtype)


@in_float32
def _by_chunks(q: Tensor, k: Tensor, v: Tensor, log_alpha: Tensor) -> Tensor:
    """Pair by pair inside each chunk, and through the state before it."""
    length = q.shape[2]
    # (batch, heads, chunks, chunk, ...)
    q, k, v, log_alpha = (chunked(x, min(CHUNK, length)) for x in (q, k, v, log_alpha))
    since_start = log_alpha.cumsum(-2)
    between = since_start[..., :, None, :] - since_start[..., None, :, :]  # (batch, heads, chunks, chunk, chunk, dim)
    scores = (q[..., :, None, :] * between.clamp(max=0).exp() * k[..., None, :, :]).sum(-1)
    y = scores.tril() @ v
    if q.shape[2] > 1:
        to_end = since_start[..., -1:, :] - since_start
        written = (k * to_end.exp()).mT @ v  # (batch, heads, chunks, dim, dim_v)
        y = y + (q * since_start.exp()) @ states_before(written, since_start[..., -1, :, None].exp(), dim=2)
    return y.flatten(2, 3)[:, :, :length]


def gated_linear_attention_flops(length: int, dim: int, dim_v: int) -> int:
    """Operations of the products above, for one head of one sequence; a pair's score has three factors."""
    chunk = min(CHUNK, length)
    chunks = -(-length // chunk)
    between = 0 if chunks == 1 else 4 * chunk * dim * dim_v
    return chunks * (chunk**2 * (3 * dim + 2 * dim_v) + between)


def _by_time(q: Tensor, k: Tensor, v: Tensor, log_alpha: Tensor) -> Tensor:
    return _by_chunks(*(x.transpose(1, 2) for x in (q, k, v, log_alpha))).transpose(1, 2)


def _forward(q: Tensor, k: Tensor, v: Tensor, log_alpha: Tensor) -> tuple[Tensor]:
    return (_by_time(q, k, v, log_alpha).contiguous(),)


def _backward(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, log_alpha: Tensor) -> tuple[Tensor, ...]:
    differentiate = torch.func.vjp(_by_time, q, k, v, log_alpha)[1]
    return tuple(x.contiguous() for x in differentiate(grad))


def _fake(q: Tensor, k: Tensor, v: Tensor, log_alpha: Tensor) -> tuple[Tensor]:
    return (v.new_empty(v.shape),)


_either = op("gated_linear_attention", *offered("gated_linear_attention", _forward, _backward, _fake), _fake)
