"""Hyena (Poli et al. 2023, "Hyena Hierarchy"): gates and long convolutions in turn, their filters given by a small MLP.

    x_1, ..., x_order, v = short_conv(W x)
    v <- h_n * (x_n v) + D_n x_n v   for n = 1, ..., order - 1         (* is a causal convolution along the sequence)
    y = W_o (x_order v)
    h_n(t) = MLP(features of t) e^{-delta t}                           t in [0, 1] over the longest row

Glossary: h = implicit filters; delta = decay of a channel's filter, from slow to fast over the channels; D = skip.

The features of t are t itself and, for each of a few frequencies, a cosine and a sine. With 3 features there is one frequency,
1e-4 turns per row, at which the cosine is 1 and the sine is 0 to three digits: the filter sees t only, so that it is a smooth
function of one number unless the features are trained.
"""

import math

import torch
from torch import Tensor, nn

from recollect.mixers.base import Init, Mixer, State, map_flops
from recollect.ops.long_conv import long_conv, long_conv_flops
from recollect.ops.short_conv import ShortConv
from recollect.spec import SpecError


class Hyena(Mixer):
    """Hyena. It has no recurrent form of fixed size: `step` carries the history of each long convolution's input.

    Filters are functions of the position over `length`, the longest row; a longer input is an error.

    order: how many gates; there are order - 1 long convolutions between them.
    filter_width: width of the filters' MLP (four linear layers with sines between them).
    features: positional features it reads: the time, and a cosine and a sine for each of (features - 1) / 2 frequencies.
        With 3, Zoology's default, the filter sees the time t only.
    train_features: whether the features are parameters, one row per position, as in Zoology's code.
    filter_init: how the filters' MLP starts: normal, N(0, 0.02) and zero biases as in both published training codes, so that
        filters start close to zero; or pytorch, nn.Linear's default, as in the bare module.
    kernel: length of the short convolution after the projections.

    Initial values: those of Zoology and of Hyena's own language model: linear maps by the model's default, the short convolution
    as nn.Conv1d's, skips from N(0, 1).
    """

    exact_causality = False  # Fourier transforms are causal up to rounding

    def __init__(
        self, width: int, *, length: int, order: int = 2, filter_width: int = 64, features: int = 3,
        train_features: bool = False, filter_init: Init = "normal", kernel: int = 3,
    ):  # fmt: skip
        super().__init__()
        if order < 2:
            raise SpecError(f"hyena: order {order} leaves no long convolution; choose 2 or more")
        self.order, self.filter_init = order, filter_init
        self.project = nn.Linear(width, (order + 1) * width)
        self.short = ShortConv((order + 1) * width, kernel)
        self.filters = ImplicitFilters(width, order - 1, length, filter_width, features, train_features)
        self.skip = nn.Parameter(torch.randn(order - 1, width))
        self.out = nn.Linear(width, width)

    def initialise(self) -> None:
        """Draw the filters' MLP again by PyTorch's default, where `filter_init` says so."""
        if self.filter_init == "pytorch":
            self.filters.reset()

    def forward(self, x: Tensor) -> Tensor:  # (batch, length, width)
        return self.out(self.mix(x))

    def mix(self, x: Tensor, values: Tensor | None = None) -> Tensor:  # (batch, length, width), the values too
        *gates, v = self.short(self.project(x)).chunk(self.order + 1, dim=-1)
        v = v if values is None else values
        for gate, filter, skip in zip(gates, self.filters(x.shape[1]), self.skip, strict=False):
            v = gate * v
            v = long_conv(v, filter) + skip.to(v.dtype) * v
        return gates[-1] * v

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
        return super().state_size(length) + (self.order - 1) * length * self.out.in_features

    def flops(self, length: int) -> int:
        return map_flops(length, self) + long_conv_flops(length, (self.order - 1) * self.out.in_features)


class ImplicitFilters(nn.Module):
    """Long filters as a function of time: an MLP with sines, times an exponential decay per channel."""

    def __init__(self, channels: int, count: int, length: int, width: int, features: int, train_features: bool):
        super().__init__()
        if features < 3 or features % 2 == 0:
            meaning = "(time, and pairs of cosine and sine)"
            raise SpecError(f"hyena: features {features} must be odd and 3 or more {meaning}")
        self.count, self.length, self.bands = count, length, features // 2
        self.features = None
        if train_features:
            position = torch.arange(length, dtype=torch.get_default_dtype())
            self.features = nn.Parameter(positional_features(position, length, self.bands))
        self.first = nn.Linear(features, width)
        self.second, self.third = nn.Linear(width, width), nn.Linear(width, width)
        self.last = nn.Linear(width, count * channels, bias=False)
        self.frequency = nn.Parameter(torch.ones(width))  # of the sines, shared by the layers

    def reset(self) -> None:
        """Draw the MLP's weights anew, by PyTorch's default for linear layers."""
        for linear in (self.first, self.second, self.third, self.last):
            linear.reset_parameters()

    def forward(self, taps: int) -> Tensor:
        """The first `taps` values of each filter: (count, channels, taps)."""
        if taps > self.length:
            raise SpecError(f"hyena: an input of length {taps} is longer than its filters, built for {self.length}")
        like = {"device": self.frequency.device, "dtype": self.frequency.dtype}
        fixed = positional_features(torch.arange(taps, **like), self.length, self.bands)
        time = fixed[:, :1]  # filters decay in true time, also if the features are trained
        h = fixed if self.features is None else self.features[:taps]  # (taps, features)
        for linear in (self.first, self.second, self.third):
            h = torch.sin(self.frequency * linear(h))
        h = self.last(h).unflatten(-1, (self.count, -1))  # (taps, count, channels)
        slow, fast = (-math.log(1e-2) / share for share in (1.5, 0.3))  # of a row, after which 1 % of a filter is left
        delta = torch.linspace(slow, fast, h.shape[-1], **like)
        return (h * torch.exp(-time * delta)[:, None]).permute(1, 2, 0)


def positional_features(position: Tensor, length: int, bands: int) -> Tensor:
    """The time in [0, 1], then a cosine and minus a sine for each frequency: (positions, 1 + 2 bands)."""
    position = position[:, None]
    time = position / max(length - 1, 1)
    frequencies = torch.linspace(1e-4, max(bands - 1, 1e-4), bands, device=position.device, dtype=position.dtype)
    angle = 2 * math.pi / length * position * frequencies
    return torch.cat([time, angle.cos(), -angle.sin()], dim=-1)
