"""State-space duality (Dao & Gu 2024, Mamba2): a linear recurrence with one scalar decay per head, by matrix products.

    h_t = a_t h_{t-1} + B_t x_t^T        (n x p matrix per head)
    y_t = h_t^T C_t

Written out, y_t = sum_{s <= t} (a_{s+1} ... a_t) (C_t . B_s) x_s: attention with a decaying causal mask. The sequence is cut
into chunks; within a chunk that form is used, and between chunks the recurrence carries h.

Mamba2, which writes B_t (dt_t x_t)^T and reads h_t^T C_t + D x_t, has an op of its own around the same kernels: ops/mamba2.py.

Shapes: x (batch, length, heads, p), log_a (batch, length, heads), B, C (batch, length, heads or 1, n), y as x.

Glossary: h = state; a = decay in (0, 1], given as its logarithm; B, C = keys and queries; x = values.
"""

import torch.nn.functional as F
from torch import Tensor

from recollect.ops import triton as kernels
from recollect.ops.external import offered
from recollect.ops.fused import chunk_dtype
from recollect.ops.op import op
from recollect.ops.precision import in_float32
from recollect.ops.recurrence import over_time, segment_sum, states_before

CHUNK = 64
"""The longest chunk: within it work grows with its square, between chunks with their number."""


def ssd_step(x: Tensor, log_a: Tensor, B: Tensor, C: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    """One token: x (batch, heads, p), log_a (batch, heads), B, C (batch, heads or 1, n), h (batch, heads, n, p)."""
    h = log_a.exp()[..., None, None] * h + B[..., None] * x[..., None, :]
    return (C[..., None] * h).sum(-2), h


def ssd_definition(x: Tensor, log_a: Tensor, B: Tensor, C: Tensor) -> Tensor:
    """One token after another."""
    batch, _, heads, p = x.shape
    return over_time(ssd_step, x.new_zeros(batch, heads, B.shape[-1], p), x, log_a, B, C, dim=1)


def ssd(x: Tensor, log_a: Tensor, B: Tensor, C: Tensor) -> Tensor:
    """The same in chunks, through our kernel where it applies."""
    dtype = chunk_dtype(x, x.shape[-1], B.shape[-1])
    if dtype is None:
        return _by_chunks(x, log_a, B, C)
    return _ssd(x.to(dtype), log_a.float(), B.to(dtype), C.to(dtype))[0].to(x.dtype)


@in_float32
def _by_chunks(x: Tensor, log_a: Tensor, B: Tensor, C: Tensor) -> Tensor:
    """Decays are exponentials of sums of log_a over segments: never above 1, never a difference."""
    length = x.shape[1]
    chunks = -(-length // CHUNK)
    size = -(-length // chunks)  # equal chunks, so that little is padded
    x, B, C = (_chunked(t, chunks, size) for t in (x, B, C))  # (batch, chunks, heads, size, p or n)
    log_a = _chunked(log_a[..., None], chunks, size)[..., 0]  # (batch, chunks, heads, size)
    log_decay = segment_sum(log_a)  # (batch, chunks, heads, size, size): from s to t
    y = ((C @ B.transpose(-1, -2)) * log_decay.exp()) @ x
    if chunks > 1:
        to_end = log_decay[..., -1, :, None].exp()  # what is left of token s at the end of its chunk
        written = B.transpose(-1, -2) @ (to_end * x)  # (batch, chunks, heads, n, p)
        since_start = log_a.cumsum(-1)
        h = states_before(written, since_start[..., -1, None, None].exp(), dim=1)
        y = y + (C @ h) * since_start.exp()[..., None]
    return y.transpose(2, 3).flatten(1, 2)[:, :length]


def _chunked(t: Tensor, chunks: int, size: int) -> Tensor:
    """(batch, length, heads, dim) -> (batch, chunks, heads, size, dim), zeros after the end."""
    padded = F.pad(t, (0, 0, 0, 0, 0, chunks * size - t.shape[1]))
    return padded.unflatten(1, (chunks, size)).transpose(2, 3)


# The kernels as an op.


def _forward(x: Tensor, log_a: Tensor, B: Tensor, C: Tensor) -> tuple[Tensor, Tensor]:
    return kernels.ssd.forward(x, log_a, B, C)[:2]


def _backward(
    grad: Tensor, x: Tensor, log_a: Tensor, B: Tensor, C: Tensor, y: Tensor, states: Tensor
) -> tuple[Tensor, ...]:
    dx, dB, dC = (t.new_empty(t.shape) for t in (x, B, C))
    (dlog_a,) = kernels.ssd.backward(grad, x, log_a, B, C, states, kernels.ssd.running(x, log_a), dx, dB, dC)
    return dx, dlog_a, dB, dC


def _fake(x: Tensor, log_a: Tensor, B: Tensor, C: Tensor) -> tuple[Tensor, Tensor]:
    return kernels.ssd.outputs(C, x, False)


_ssd = op("ssd", *offered("ssd", _forward, _backward, _fake), _fake)
