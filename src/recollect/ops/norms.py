"""A norm in front of a linear map, its scale s and shift t inside the map:

    W (s * n + t) + b = (W s) n + (W t + b)        n = the norm without scale and shift

The gradients of s and t then come from those of the map; computed directly they would be sums over all tokens, with another read
of everything.
"""

import torch.nn.functional as F
from torch import Tensor, nn

Norm = nn.LayerNorm | nn.RMSNorm


def absorbed(norm: Norm, x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What F.linear takes instead of norm(x), w and b."""
    if isinstance(norm, nn.LayerNorm):
        x = F.layer_norm(x, norm.normalized_shape, eps=norm.eps)
        b = (b + (w * norm.bias).sum(-1)).to(b.dtype)
    else:
        x = F.rms_norm(x, norm.normalized_shape, eps=norm.eps)
    return x, w * norm.weight, b
