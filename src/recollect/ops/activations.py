"""Activation functions whose rounding does not depend on an element's position in the tensor.

On the CPU PyTorch's sigmoid, silu, softplus, gelu and elu take the last few numbers of a tensor through other code than
the rest, so under vmap the last bits of a member's numbers would depend on how many members follow it in a cohort. exp, expm1,
tanh, erf and logsigmoid do not, so there the functions are composed of them. A single member uses PyTorch's own.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from recollect.ops.fused import alone_on_cpu
from recollect.ops.op import op


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return torch.sigmoid(x) if alone_on_cpu(x) else torch.tanh(x / 2) / 2 + 0.5


def silu(x: Tensor) -> Tensor:
    """x sigmoid(x)."""
    return F.silu(x) if alone_on_cpu(x) else x * sigmoid(x)


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x))."""
    return F.softplus(x) if alone_on_cpu(x) else -F.logsigmoid(-x)


def gelu(x: Tensor) -> Tensor:
    """x times the normal distribution function of x."""
    return F.gelu(x) if x.is_cuda or alone_on_cpu(x) else _gelu(x)[0]


# Every MLP spends its time here, so under vmap on the CPU it has a backward of its own, with few passes over memory.


def _gelu_forward(x: Tensor) -> tuple[Tensor, Tensor]:
    share = torch.mul(x, math.sqrt(0.5)).erf_().mul_(0.5).add_(0.5)  # the distribution function
    return x * share, share


def _gelu_backward(grad: Tensor, x: Tensor, y: Tensor, share: Tensor) -> tuple[Tensor]:
    density = (x * x).mul_(-0.5).exp_()  # without its factor
    return (torch.addcmul(share, density, x, value=1 / math.sqrt(2 * math.pi)).mul_(grad),)


_gelu = op("gelu", _gelu_forward, _gelu_backward, fake=lambda x: (torch.empty_like(x), torch.empty_like(x)))
