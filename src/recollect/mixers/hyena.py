"""Hyena (Poli et al. 2023, "Hyena Hierarchy"): gates and long convolutions in turn, their filters given by a small MLP.

    x_1, ..., x_order, v = short_conv(W x)
    v <- h_n * (x_n v) + D_n x_n v   for n = 1, ..., order - 1         (* is a causal convolution along the sequence)
    y = W_o (x_order v)
    h_n(t) = MLP(features of t) e^{-delta t}                           t in [0, 1] over the longest row

Glossary: h = implicit filters; delta = decay of a channel's filter, from slow to fast over the channels; D = skip.
"""

import math

import torch
from torch import Tensor, nn

from recollect.mixers.base import Mixer, State, linear_flops
from recollect.ops.long_conv import long_conv, long_conv_flops
from recollect.ops.short_conv import ShortConv
from recollect.spec import SpecError


class Hyena(Mixer):
    """Hyena. It has no recurrent form of fixed size: `step` carries the history of each long convolution's input.

    Filters are functions of the position over `length`, the longest row; a longer input is an error.

    order: how many gates; order - 1 long convolutions stand between them.
    filter_width: width of the filters' MLP (four linear layers with sines between them).
    features: positional features it reads: the time, and a cosine and a sine for each of (features - 1) / 2 frequencies.
    kernel: length of the short convolution after the projections.
    """

    exact_causality = False  # the rounding of Fourier transforms looks ahead

    def __init__(
        self, width: int, *, length: int, order: int = 2, filter_width: int = 64, features: int = 3, kernel: int = 3
    ):
        super().__init__()
        if order < 2:
            raise SpecError(f"hyena: order {order} leaves no long convolution; choose 2 or more")
        self.order = order
        self.project = nn.Linear(width, (order + 1) * width)
        self.short = ShortConv((order + 1) * width, kernel)
        self.filters = ImplicitFilters(width, order - 1, length, filter_width, features)
        self.skip = nn.Parameter(torch.randn(order - 1, width))
        self.out = nn.Linear(width, width)

    def initialise(self) -> None:
        """The filters' MLP keeps PyTorch's law: with weights as small as the model's, filters would be flat."""
        self.filters.reset()

    def forward(self, x: Tensor) -> Tensor:  # (batch, length, width)
        *gates, v = self.short(self.project(x)).chunk(self.order + 1, dim=-1)
        for gate, filter, skip in zip(gates, self.filters(x.shape[1]), self.skip, strict=False):
            v = gate * v
            v = long_conv(v, filter) + skip.to(v.dtype) * v
        return self.out(gates[-1] * v)

    def initial_state(self, batch: int) -> State:
        empty = self.skip.new_zeros(batch, 0, self.out.in_features)
        return {"short": self.short.initial_state(batch)} | {f"history_{n}": empty for n in range(1, self.order)}

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:  # x (batch, width)
        u, short = self.short.step(self.project(x), state["short"])
        *gates, v = u.chunk(self.order + 1, dim=-1)
        new = {"short": short}
        filters = self.filters(state["history_1"].shape[1] + 1)  # (order - 1, width, seen)
        for n in range(1, self.order):
            v = gates[n - 1] * v
            new[f"history_{n}"] = history = torch.cat([state[f"history_{n}"], v[:, None]], dim=1)
            v = (history.flip(1) * filters[n - 1].T).sum(1) + self.skip[n - 1] * v
        return self.out(gates[-1] * v), new

    def state_size(self, length: int) -> int:
        return self.short.weight.numel() - self.short.weight.shape[0] + (self.order - 1) * length * self.out.in_features

    def flops(self, length: int) -> int:
        long = long_conv_flops(length, (self.order - 1) * self.out.in_features)
        h = self.filters
        linears = linear_flops(length, self.project, self.out, h.first, h.second, h.third, h.last)
        return linears + self.short.flops(length) + long


class ImplicitFilters(nn.Module):
    """Long filters as a function of time: an MLP with sines, times an exponential decay of each channel's own."""

    def __init__(self, channels: int, count: int, length: int, width: int, features: int):
        super().__init__()
        if features < 3 or features % 2 == 0:
            raise SpecError(
                f"hyena: features {features} must be odd and at least 3 (time, and pairs of cosine and sine)"
            )
        self.count, self.length, self.bands = count, length, features // 2
        self.first = nn.Linear(features, width)
        self.second, self.third = nn.Linear(width, width), nn.Linear(width, width)
        self.last = nn.Linear(width, count * channels, bias=False)
        self.frequency = nn.Parameter(torch.ones(width))  # of the sines, shared by the layers

    def reset(self) -> None:
        """Draw the MLP's weights anew, by PyTorch's law for linear layers."""
        for linear in (self.first, self.second, self.third, self.last):
            linear.reset_parameters()

    def forward(self, taps: int) -> Tensor:
        """The first `taps` values of each filter: (count, channels, taps)."""
        if taps > self.length:
            raise SpecError(f"hyena: an input of length {taps} is longer than its filters, built for {self.length}")
        like = {"device": self.frequency.device, "dtype": self.frequency.dtype}
        position = torch.arange(taps, **like)[:, None]
        time = position / max(self.length - 1, 1)
        bands = torch.linspace(1e-4, max(self.bands - 1, 1e-4), self.bands, **like)
        angle = 2 * math.pi / self.length * position * bands
        h = torch.cat([time, angle.cos(), -angle.sin()], dim=-1)  # (taps, features)
        for linear in (self.first, self.second, self.third):
            h = torch.sin(self.frequency * linear(h))
        h = self.last(h).unflatten(-1, (self.count, -1))  # (taps, count, channels)
        slow, fast = (-math.log(1e-2) / share for share in (1.5, 0.3))  # of a row, after which 1 % of a filter is left
        delta = torch.linspace(slow, fast, h.shape[-1], **like)
        return (h * torch.exp(-time * delta)[:, None]).permute(1, 2, 0)
