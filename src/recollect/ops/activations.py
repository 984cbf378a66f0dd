"""Activation functions that round a number the same wherever in a tensor it stands.

On the CPU PyTorch's sigmoid, silu, softplus, gelu and elu take the last few numbers of a tensor through other code than
the rest, so the last bits of a member's numbers would depend on how many members follow it in a cohort. exp, expm1, tanh,
erf and logsigmoid do not; these are made of them.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return torch.tanh(x / 2) / 2 + 0.5


def silu(x: Tensor) -> Tensor:
    """x sigmoid(x)."""
    return x * sigmoid(x)


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x))."""
    return -F.logsigmoid(-x)


def gelu(x: Tensor) -> Tensor:
    """x times the normal distribution function of x."""
    return x * (0.5 + 0.5 * torch.erf(x / math.sqrt(2)))
