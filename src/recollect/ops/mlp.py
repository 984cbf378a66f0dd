"""The two-layer network that follows a mixer, applied to each token.

    y = W_2 gelu(W_1 x + b_1) + b_2

Shapes: x, y (..., width), W_1 (hidden, width), W_2 (width, hidden).
"""

import torch.nn.functional as F
from torch import Tensor

from recollect.ops import triton as kernels
from recollect.ops.activations import gelu
from recollect.ops.fused import kernel_dtype
from recollect.ops.op import op

MAX_WIDTH = 128
"""Wider rows do not fit the kernel's registers; plain products are faster for them."""


def mlp_definition(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    """The network by the formula."""
    return F.linear(gelu(F.linear(x, w1, b1)), w2, b2)


def mlp(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    """The same; on a GPU in 16-bit precision without storing the hidden layer."""
    dtype = kernel_dtype(x)
    if dtype is None or x.shape[-1] > MAX_WIDTH:
        return mlp_definition(x, w1, b1, w2, b2)
    rows = x.to(dtype).reshape(1, -1, x.shape[-1])
    return _fused(rows, w1[None], b1[None], w2[None], b2[None])[0].view(x.shape)


def _forward(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> tuple[Tensor]:
    """x (groups, tokens, width), and a network for each group."""
    return (kernels.mlp.forward(x, w1, b1, w2, b2),)


def _backward(grad: Tensor, x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> tuple[Tensor, ...]:
    return kernels.mlp.backward(grad, x, w1, b1, w2, b2)


_fused = op("mlp", _forward, _backward, fake=lambda x, *weights: (x.new_empty(x.shape),))
