"""Short causal convolution along the sequence, one filter per channel.

    y_t = act(sum_{j < kernel} w_j x_{t - (kernel-1) + j} + b)        (zeros before the start; act: none, or silu)

The module also has a centred form, which looks ahead: y_t is what the causal one gives kernel // 2 tokens later, with zeros
after the end of the row.

Shapes: x (batch, length, channels), w (channels, kernel), b (channels,).
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recollect.ops import triton as kernels
from recollect.ops.activations import silu
from recollect.ops.fused import use_kernels
from recollect.ops.op import op
from recollect.ops.precision import product_dtype
from recollect.ops.recurrence import over_time
from recollect.spec import SpecError

Activation = Literal["none", "silu"]

LONGEST = 16
"""The most taps of a filter that the kernels are used for: they unroll every product, so longer ones take long to compile."""


def short_conv_step(
    x: Tensor, w: Tensor, b: Tensor | None, activation: Activation, before: Tensor
) -> tuple[Tensor, Tensor]:
    """One token, x (batch, channels): y and the last inputs (batch, kernel - 1, channels), which were `before`."""
    window = torch.cat([before, x[:, None]], dim=1)  # (batch, kernel, channels)
    return _finished((window * w.T).sum(1), b, activation), window[:, 1:]


def short_conv_definition(x: Tensor, w: Tensor, b: Tensor | None = None, activation: Activation = "none") -> Tensor:
    """One token after another."""
    before = x.new_zeros(x.shape[0], w.shape[1] - 1, x.shape[2])
    return over_time(lambda x_t, before: short_conv_step(x_t, w, b, activation, before), before, x, dim=1)


def short_conv(x: Tensor, w: Tensor, b: Tensor | None = None, activation: Activation = "none") -> Tensor:
    """The same for the whole sequence: a sum of shifted products (a kernel is 3 or 4 long, so conv1d gains nothing)."""
    if use_kernels(x) and w.shape[1] <= LONGEST:  # the kernels take weights wider than x, and sum in float32
        taps = w if b is None else torch.cat([w, b[:, None]], dim=1)
        x = x.to(product_dtype(x))
        # `squeeze`, for the gradient of an index would be copied.
        return _kernels(x[None], taps[None], activation, b is not None)[0].squeeze(0)
    wide = torch.promote_types(x.dtype, w.dtype)
    x, w = x.to(wide), w.to(wide)
    if x.is_cuda:
        return _finished(shifted_products(x, w), b, activation)
    return _finished(_products(x[None], w[None])[0].squeeze(0), b, activation)  # members fold into the group axis


def _finished(y: Tensor, b: Tensor | None, activation: Activation) -> Tensor:
    """What follows the sum of products."""
    y = y if b is None else y + b
    return silu(y) if activation == "silu" else y


def shifted_products(x: Tensor, w: Tensor) -> Tensor:
    """The convolution in PyTorch's own ops, which a compiler fuses into one kernel."""
    length, kernel = x.shape[1], w.shape[1]
    padded = F.pad(x, (0, 0, kernel - 1, 0))
    y = padded[:, :length] * w[:, 0]
    for j in range(1, kernel):
        y = y + padded[:, j : j + length] * w[:, j]
    return y


def _forward(x: Tensor, w: Tensor) -> tuple[Tensor]:
    """x (groups, batch, length, channels), w (groups, channels, kernel)."""
    kernel = w.shape[2]
    taps = w.movedim(2, 0)[:, :, None, None]  # (kernel, groups, 1, 1, channels)
    y = x * taps[-1]
    for back in range(1, min(kernel, x.shape[2])):
        y[:, :, back:].addcmul_(x[:, :, :-back], taps[-1 - back])
    return (y,)


def _backward(grad: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    kernel = w.shape[2]
    taps = w.movedim(2, 0)[:, :, None, None]
    dx, dw = grad * taps[-1], torch.zeros_like(w)
    dw[:, :, -1] = (grad * x).sum((1, 2))
    for back in range(1, min(kernel, x.shape[2])):
        dx[:, :, :-back].addcmul_(grad[:, :, back:], taps[-1 - back])
        dw[:, :, -1 - back] = (grad[:, :, back:] * x[:, :, :-back]).sum((1, 2))
    return dx, dw


_products = op("short_conv", _forward, _backward, fake=lambda x, w: (x.new_empty(x.shape),))


# The kernels as an op; the last column of w is the bias where there is one.


def _kernel_forward(x: Tensor, w: Tensor, activation: str, biased: bool) -> tuple[Tensor]:
    return (kernels.short_conv.forward(x, w, activation, biased),)


def _kernel_backward(grad: Tensor, x: Tensor, w: Tensor, activation: str, biased: bool) -> tuple[Tensor, Tensor]:
    return kernels.short_conv.backward(grad, x, w, activation, biased)


_kernels = op("short_conv_kernel", _kernel_forward, _kernel_backward, fake=lambda x, *_: (x.new_empty(x.shape),))


class ShortConv(nn.Module):
    """The convolution with its weights, and its last `kernel - 1` inputs as the state of `step`.

    causal: false gives the centred form, nn.Conv1d's with padding "same". It has no `step`.
    Weights and biases start as nn.Conv1d's do for one channel per group.
    """

    def __init__(
        self, channels: int, kernel: int = 4, bias: bool = True, activation: Activation = "none", causal: bool = True
    ):
        super().__init__()
        self.activation: Activation = activation
        self.ahead = 0 if causal else kernel // 2
        bound = kernel**-0.5
        self.weight = nn.Parameter(torch.empty(channels, kernel).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(channels).uniform_(-bound, bound)) if bias else None

    def forward(self, x: Tensor) -> Tensor:  # (batch, length, channels) -> same
        if not self.ahead:
            return short_conv(x, self.weight, self.bias, self.activation)
        later = F.pad(x, (0, 0, 0, self.ahead))
        return short_conv(later, self.weight, self.bias, self.activation)[:, self.ahead :]

    def initial_state(self, batch: int) -> Tensor:
        """(batch, kernel - 1, channels), zeros."""
        return self.weight.new_zeros(batch, self.weight.shape[1] - 1, self.weight.shape[0])

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:  # x (batch, channels)
        if self.ahead:
            raise SpecError(
                f"a centred convolution of {self.weight.shape[1]} taps reads tokens that come later, so it has no recurrent "
                "form; to step from token to token choose a causal one (conv_causal: true)"
            )
        return short_conv_step(x, self.weight, self.bias, self.activation, state)


class Canon(ShortConv):
    """A Canon layer (Allen-Zhu 2025): x plus its convolution with 4 taps, without bias and activation."""

    def __init__(self, channels: int):
        super().__init__(channels, kernel=4, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + super().forward(x)

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        y, state = super().step(x, state)
        return x + y, state
