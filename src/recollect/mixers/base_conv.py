"""BaseConv (Arora et al. 2023, "Zoology"): the simplest gated convolution, plus its input.

    y = (W x + b) * conv(x) + x
    conv(x) = h * x + c         short: one filter of a few taps per channel, with a bias c
    conv(x) = h * x + x         implicit: filters as long as the row, h(t) = MLP(features of t)

Glossary: W x + b = the gate; h = the filters, * a causal convolution along the sequence; features as in hyena.py.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recollect.mixers.base import Mixer, State, map_flops
from recollect.mixers.hyena import positional_features
from recollect.ops.long_conv import long_conv, long_conv_flops
from recollect.ops.short_conv import ShortConv
from recollect.spec import SpecError


class BaseConv(Mixer):
    """A gate times a causal convolution, plus the input: an inner residual, as in Zoology's code.

    kernel: length of the convolution.
    implicit: a convolution as long as the row in place of the short one, as Zoology's: its filters are given by an MLP of
        3 features (time, and one cosine and sine) and 16 hidden units with ReLU. It has no decay and adds its input. `step`
        carries the history of inputs, and a row longer than `length` is an error.

    Initial values: Zoology's: linear maps, those of the MLP too, by the model's default, the short convolution as nn.Conv1d's.
    """

    def __init__(self, width: int, *, kernel: int = 3, implicit: bool = False, length: int = 1024):
        super().__init__()
        self.gate = nn.Linear(width, width)
        self.conv = LongConv(width, length) if implicit else ShortConv(width, kernel)
        self.exact_causality = not implicit  # Fourier transforms round over the whole row

    def forward(self, x: Tensor) -> Tensor:  # (batch, length, width)
        return self.mix(x)

    def mix(self, x: Tensor, values: Tensor | None = None) -> Tensor:  # (batch, length, width), the values too
        values = x if values is None else values
        return self.gate(x) * self.conv(values) + values

    def initial_state(self, batch: int) -> State:
        return {"conv": self.conv.initial_state(batch)}

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:  # x (batch, width)
        convolved, conv = self.conv.step(x, state["conv"])
        return self.gate(x) * convolved + x, {"conv": conv}

    def state_size(self, length: int) -> int:
        history = length * self.gate.in_features if isinstance(self.conv, LongConv) else 0
        return super().state_size(length) + history

    def flops(self, length: int) -> int:
        long = long_conv_flops(length, self.gate.in_features) if isinstance(self.conv, LongConv) else 0
        return map_flops(length, self) + long


class LongConv(nn.Module):
    """A convolution over all of the row with implicit filters, plus its input; `step` carries all of its inputs."""

    def __init__(self, channels: int, length: int):
        super().__init__()
        self.length = length
        self.first, self.last = nn.Linear(3, 16), nn.Linear(16, channels)

    def forward(self, x: Tensor) -> Tensor:  # (batch, length, channels) -> same
        return long_conv(x, self._filters(x.shape[1]).to(x.dtype)) + x

    def _filters(self, taps: int) -> Tensor:
        """The first `taps` values of each filter: (channels, taps)."""
        if taps > self.length:
            raise SpecError(f"base_conv: an input of length {taps} is longer than its filters, built for {self.length}")
        position = torch.arange(taps, device=self.first.weight.device, dtype=self.first.weight.dtype)
        return self.last(F.relu(self.first(positional_features(position, self.length, bands=1)))).T

    def initial_state(self, batch: int) -> Tensor:
        """(batch, 0, channels)."""
        return self.last.weight.new_zeros(batch, 0, self.last.out_features)

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:  # x (batch, channels)
        history = torch.cat([state, x[:, None]], dim=1)
        return (history.flip(1) * self._filters(history.shape[1]).T).sum(1) + x, history
