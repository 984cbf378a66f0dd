"""The gate and the norm between Mamba2's scan and its last projection, token by token.

    out = w * g / sqrt(mean g^2 + eps)        g = y * silu(z)

Shapes: y, z, out (..., width), w (width,).
"""

import torch.nn.functional as F
from torch import Tensor

from recollect.ops.activations import silu
from recollect.ops.fold import folded
from recollect.ops.triton import available, short_dtype

EPS = 1e-5

WIDEST = 8192
"""The kernels hold whole rows: wider ones do not fit their registers."""


def gated_norm_definition(y: Tensor, z: Tensor, w: Tensor) -> Tensor:
    """The norm as it is written."""
    return F.rms_norm(y * silu(z), w.shape, w, EPS)


def gated_norm(y: Tensor, z: Tensor, w: Tensor) -> Tensor:
    """The same; on a GPU in one pass, and one more for the gradients, with sums in float32 and w as long as it is given."""
    if not available(y) or y.shape[-1] > WIDEST:
        return gated_norm_definition(y, z, w)
    dtype = short_dtype(y) or y.dtype
    rows = (t.to(dtype).reshape(1, -1, y.shape[-1]) for t in (y, z))
    return _fused(*rows, w[None])[0].view(y.shape)


def _forward(y: Tensor, z: Tensor, w: Tensor) -> tuple[Tensor]:
    """y, z (groups, tokens, width), and a w for each group."""
    from recollect.ops.triton import gated_norm as kernels

    return (kernels.forward(y, z, w, EPS),)


def _backward(grad: Tensor, y: Tensor, z: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    from recollect.ops.triton import gated_norm as kernels

    return kernels.backward(grad, y, z, w, EPS)


def _fake(y: Tensor, z: Tensor, w: Tensor) -> tuple[Tensor]:
    return (y.new_empty(y.shape),)


def _fake_backward(grad: Tensor, y: Tensor, z: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    dy, dz, dw = (t.new_empty(t.shape) for t in (y, z, w))
    return dy, dz, dw


_fused = folded("gated_norm", _forward, _backward, _fake, _fake_backward, saves_output=False)
