"""Softmax attention (Vaswani et al. 2017).

    y_t = sum_{s <= t} softmax_s(q_t . k_s / sqrt(d) + b_ts) v_s

A sink (GPT-OSS) is one more score per head in the softmax, without a value: a head can then attend to nothing.

Shapes: q, k (batch, heads, length, dim), v (batch, heads, length, dim_v).
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from recollect.ops import triton as kernels
from recollect.ops.fused import alone_on_cpu, kernel_dtype
from recollect.ops.op import op
from recollect.ops.precision import HALF, in_float32, wide
from recollect.rng import dropout

_aten = torch.ops.aten


def attention_definition(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, drop: float = 0.0, sinks: Tensor | None = None
) -> Tensor:
    """Attention by the formula; `bias` ((batch,) heads, length, length) is added to the scores (-inf hides); sinks (heads,)."""
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])  # (batch, heads, length, length)
    future = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).triu(1 + k.shape[-2] - q.shape[-2])
    scores = scores.masked_fill(future, -math.inf)
    if bias is not None:
        scores = scores + bias
    if sinks is not None:
        column = sinks[:, None, None].to(scores.dtype).expand(*scores.shape[:-1], 1)
        scores = torch.cat([scores, column], dim=-1)
    weights = scores.softmax(dim=-1)
    if sinks is not None:
        weights = weights[..., :-1]
    return dropout(weights, drop) @ v


def attention(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, drop: float = 0.0, sinks: Tensor | None = None
) -> Tensor:
    """The same, through our kernel or PyTorch's flash kernels where they apply."""
    plain = bias is None and drop == 0 and sinks is None and q.shape == k.shape == v.shape
    if plain and _kernel_serves(q, q.shape[-1]):
        packed = torch.stack([x.transpose(1, 2) for x in (q, k, v)], dim=2)
        return _packed(packed, None)[0].transpose(1, 2)
    if plain and alone_on_cpu(q):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    on_gpu = q.is_cuda and q.dtype in HALF and q.shape[-1] % 8 == 0 and q.shape[-1] <= 256
    if plain and (on_gpu or not q.is_cuda):
        return _flash(q.contiguous(), k.contiguous(), v.contiguous())[0]
    return attention_definition(q, k, v, bias, drop, sinks)


@in_float32
def forget_bias(log_gates: Tensor) -> Tensor:
    """FoX's bias from the logarithms of forget gates (batch, heads, length): at (t, s) their sum over s < r <= t, for s <= t."""
    total = log_gates.cumsum(-1)
    return total[..., :, None] - total[..., None, :]


def projected_attention(x: Tensor, w: Tensor, b: Tensor | None, heads: int) -> Tensor:
    """Attention of q, k, v = W x + b, which lie side by side: x (batch, length, width) -> (batch, length, heads, dim)."""
    if _kernel_serves(x, x.shape[-1] // heads):
        qkv = F.linear(x, w).unflatten(-1, (3, heads, -1))  # (batch, length, 3, heads, dim)
        return _packed(qkv, None if b is None else b[None])[0]  # the kernel adds the biases
    q, k, v = F.linear(x, w, b).unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
    return attention(q, k, v).transpose(1, 2)


def _kernel_serves(x: Tensor, dim: int) -> bool:
    """Whether our kernel is used: in 16-bit precision; in float32 PyTorch's own matrix products are faster."""
    return kernel_dtype(x) is not None and dim <= 128


def _packed_forward(qkv: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """qkv (groups * rows, length, 3, heads, dim); bias (groups, 3 * heads * dim)."""
    return kernels.attention.forward(qkv, bias)


def _packed_fake(qkv: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    rows, length, _, heads, dim = qkv.shape
    return qkv.new_empty(rows, length, heads, dim), qkv.new_empty(rows, heads, length, dtype=torch.float32)


_packed = op("packed_attention", _packed_forward, lambda *saved: kernels.attention.backward(*saved), _packed_fake)


def _forward(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    if q.is_cuda:
        out, logsumexp, *_ = _aten._scaled_dot_product_flash_attention(q, k, v, 0.0, True, False)
    else:
        out, logsumexp = _aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True)
    return out.contiguous(), logsumexp.contiguous()


def _backward(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, logsumexp: Tensor) -> tuple[Tensor, ...]:
    if q.is_cuda:
        n = q.shape[-2]
        unused = (
            torch.zeros(2, dtype=torch.uint64, device=q.device),
            torch.empty(0, dtype=torch.uint64, device=q.device),
        )
        grads = _aten._scaled_dot_product_flash_attention_backward(
            grad, q, k, v, out, logsumexp, None, None, n, n, 0.0, True, *unused
        )
    else:
        grads = _aten._scaled_dot_product_flash_attention_for_cpu_backward(grad, q, k, v, out, logsumexp, 0.0, True)
    return tuple(x.contiguous() for x in grads[:3])


def _fake(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(q), q.new_empty(q.shape[:-1], dtype=wide(q.dtype))


_flash = op("attention", _forward, _backward, _fake)
