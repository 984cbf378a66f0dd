"""Short causal convolution along the sequence, one filter a channel.

    y_t = sum_{j < kernel} w_j x_{t - (kernel-1) + j} + b        (zeros before the start)

Shapes: x (batch, length, channels), w (channels, kernel), b (channels,).
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def short_conv_definition(x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    """One token after another."""
    kernel = w.shape[1]
    window = x.new_zeros(x.shape[0], kernel, x.shape[2])
    out = []
    for x_t in x.unbind(1):
        window = torch.cat([window[:, 1:], x_t[:, None]], dim=1)  # (batch, kernel, channels)
        out.append((window * w.T).sum(1) + (0 if b is None else b))
    return torch.stack(out, dim=1)


def short_conv(x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    """The same for the whole sequence: a sum of shifted products (a kernel is 3 or 4 long, so this beats conv1d in a cohort)."""
    kernel, length = w.shape[1], x.shape[1]
    padded = F.pad(x, (0, 0, kernel - 1, 0))  # (batch, length + kernel - 1, channels)
    y = padded[:, :length] * w[:, 0]
    for j in range(1, kernel):
        y = y + padded[:, j : j + length] * w[:, j]
    return y if b is None else y + b


class ShortConv(nn.Module):
    """The convolution with its weights, and its last `kernel - 1` inputs as the state of `step`."""

    def __init__(self, channels: int, kernel: int = 4, bias: bool = True):
        super().__init__()
        bound = kernel**-0.5  # as nn.Conv1d starts with one channel a group
        self.weight = nn.Parameter(torch.empty(channels, kernel).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(channels).uniform_(-bound, bound)) if bias else None

    def forward(self, x: Tensor) -> Tensor:  # (batch, length, channels) -> same
        return short_conv(x, self.weight, self.bias)

    def initial_state(self, batch: int) -> Tensor:
        """(batch, kernel - 1, channels), zeros."""
        return self.weight.new_zeros(batch, self.weight.shape[1] - 1, self.weight.shape[0])

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:  # x (batch, channels)
        window = torch.cat([state, x[:, None]], dim=1)  # (batch, kernel, channels)
        y = (window * self.weight.T).sum(1)
        return (y if self.bias is None else y + self.bias), window[:, 1:]

    def flops(self, length: int) -> int:
        """Floating-point operations for one sequence."""
        return 2 * length * self.weight.numel()
