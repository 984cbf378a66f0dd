"""Linear attention (Katharopoulos et al. 2020), with the Taylor features of Based (Arora et al. 2024).

    S_t = S_{t-1} + phi(k_t)^T v_t        z_t = z_{t-1} + phi(k_t)        y_t = phi(q_t) S_t / phi(q_t) . z_t

Without normalisation y_t = phi(q_t) S_t. The feature maps phi of a vector x of d numbers:

    elu       elu(x) + 1                                     d features, positive
    relu      max(x, 0)                                      d features, not negative
    identity  x                                              d features of any sign: the divisor may come near zero
    taylor    (1, x / d^(1/4), x (x) x / sqrt(2 d))          1 + d + d^2 features

Taylor's products are phi(q) . phi(k) = 1 + s + s^2 / 2 with s = q . k / sqrt(d), the start of exp(s), and at least 1/2.
EPSILON is always added to the divisor, or subtracted where the divisor is negative, so that it is at least EPSILON in size.

Shapes: q, k (batch, heads, length, dim), v (batch, heads, length, dim_v).
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from recollect.ops import triton as kernels
from recollect.ops.fused import chunk_dtype
from recollect.ops.op import op
from recollect.ops.precision import in_float32
from recollect.ops.recurrence import chunked, over_time

Feature = Literal["elu", "relu", "identity", "taylor"]

CHUNK = 128  # tokens whose scores are formed as a matrix
EPSILON = 1e-6


def features(x: Tensor, feature: Feature) -> Tensor:
    """phi(x): (..., dim) -> (..., feature_size(feature, dim))."""
    if feature == "elu":
        return x.clamp(max=0).exp() + F.relu(x)
    if feature == "relu":
        return F.relu(x)
    if feature == "identity":
        return x
    dim = x.shape[-1]
    squares = (x[..., :, None] * x[..., None, :]).flatten(-2) / math.sqrt(2 * dim)
    return torch.cat([torch.ones_like(x[..., :1]), x / dim**0.25, squares], dim=-1)


def feature_size(feature: Feature, dim: int) -> int:
    """How many features a vector of `dim` numbers has."""
    return 1 + dim + dim**2 if feature == "taylor" else dim


def linear_attention_step(
    q: Tensor, k: Tensor, v: Tensor, state: Tensor, feature: Feature, normalise: bool
) -> tuple[Tensor, Tensor]:
    """One token, q, k (batch, heads, dim): y and the next state (batch, heads, features, dim_v, and one more for z)."""
    v = _with_one(v) if normalise else v
    state = state + features(k, feature)[..., :, None] * v[..., None, :]
    y = (features(q, feature)[..., None, :] @ state)[..., 0, :]
    return (_divided(y) if normalise else y), state


def linear_attention_definition(
    q: Tensor, k: Tensor, v: Tensor, feature: Feature = "elu", normalise: bool = True
) -> Tensor:
    """One token after another."""
    state = q.new_zeros(*q.shape[:2], feature_size(feature, q.shape[-1]), v.shape[-1] + normalise)
    return over_time(lambda q, k, v, s: linear_attention_step(q, k, v, s, feature, normalise), state, q, k, v, dim=2)


def linear_attention(q: Tensor, k: Tensor, v: Tensor, feature: Feature = "elu", normalise: bool = True) -> Tensor:
    """The same by chunks, through our kernel where it applies."""
    dtype = chunk_dtype(q, q.shape[-1], v.shape[-1])
    if feature == "taylor" or dtype is None:
        return _by_chunks(q, k, v, feature, normalise)
    by_time = (x.to(dtype).transpose(1, 2) for x in (q, k, v))  # (batch, length, heads, dim)
    return _op(*by_time, feature, normalise)[0].transpose(1, 2).to(q.dtype)


@in_float32
def _by_chunks(q: Tensor, k: Tensor, v: Tensor, feature: Feature, normalise: bool) -> Tensor:
    """A masked matrix of products inside each chunk, and the sum of all chunks before it."""
    length = q.shape[2]
    q, k, v = (chunked(x, min(CHUNK, length)) for x in (q, k, _with_one(v) if normalise else v))
    y = _products(q, k, feature).tril() @ v  # (batch, heads, chunks, chunk, dim_v)
    if q.shape[2] > 1:
        sums = features(k[:, :, :-1], feature).mT @ v[:, :, :-1]  # (batch, heads, chunks - 1, features, dim_v)
        read = features(q[:, :, 1:], feature) @ sums.cumsum(2)
        y = y + F.pad(read, (0, 0, 0, 0, 1, 0))  # nothing comes before the first chunk
    y = y.flatten(2, 3)[:, :, :length]
    return _divided(y) if normalise else y


def linear_attention_flops(length: int, dim: int, dim_v: int, feature: Feature, normalise: bool) -> int:
    """Operations of the matrix products above, for one head of one sequence."""
    chunk, columns = min(CHUNK, length), dim_v + normalise
    chunks = -(-length // chunk)
    between = 4 * (chunks - 1) * chunk * feature_size(feature, dim) * columns
    return 2 * chunks * chunk**2 * (dim + columns) + between


def _products(q: Tensor, k: Tensor, feature: Feature) -> Tensor:
    """phi(q_i) . phi(k_j), for Taylor's many features without forming them."""
    if feature != "taylor":
        return features(q, feature) @ features(k, feature).mT
    s = q @ k.mT / math.sqrt(q.shape[-1])
    return 1 + s + s * s / 2


def _with_one(v: Tensor) -> Tensor:
    """v with a column of ones: what it sums to is phi(q_t) . z_t."""
    return torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)


def _divided(y: Tensor) -> Tensor:
    """The columns of y by its last, which is first moved away from zero."""
    divisor = y[..., -1:]
    return y[..., :-1] / (divisor + torch.where(divisor < 0, -EPSILON, EPSILON))


# The kernels as an op of q, k (rows, length, heads, dim) and v (rows, length, heads, dim_v): they go by a state from chunk to
# chunk, or by pairs of tokens.


def _kernels(q: Tensor, v: Tensor):
    return kernels.linear_attention_pairs if kernels.linear_attention_pairs.serves(q, v) else kernels.linear_attention


def _forward(q: Tensor, k: Tensor, v: Tensor, feature: str, normalise: bool) -> tuple[Tensor, Tensor]:
    return _kernels(q, v).forward(q, k, v, feature, normalise)


def _backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, feature: str, normalise: bool, y: Tensor, states: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    return _kernels(q, v).backward(grad, q, k, v, y, states, feature, normalise)


def _fake(q: Tensor, k: Tensor, v: Tensor, feature: str, normalise: bool) -> tuple[Tensor, Tensor]:
    return _kernels(q, v).outputs(q, v, normalise)


_op = op("linear_attention", _forward, _backward, _fake)
