"""BaseConv (Arora et al. 2023, "Zoology"): the simplest gated convolution, plus its input.

    y = (W x + b_1) * (h conv x + b_2) + x

Glossary: W x + b_1 = the gate; h = the filters, one a channel, with bias b_2.
"""

import torch
from torch import Tensor, nn

from recollect.mixers.base import Mixer, State, linear_flops
from recollect.mixers.hyena import ImplicitFilters
from recollect.ops.long_conv import long_conv, long_conv_flops
from recollect.ops.short_conv import ShortConv
from recollect.spec import SpecError


class BaseConv(Mixer):
    """A gate times a causal convolution, plus the input: an inner residual, as in Zoology's code.

    kernel: length of the convolution.
    implicit: a convolution as long as the row in place of the short one, its filters given by an MLP of Hyena's kind
        (16 wide, 3 features). `step` then carries the history of inputs, and a row longer than `length` is an error.
    """

    def __init__(self, width: int, *, kernel: int = 3, implicit: bool = False, length: int = 1024):
        super().__init__()
        if kernel < 1:
            raise SpecError(f"base_conv: kernel {kernel} must be at least 1")
        self.gate = nn.Linear(width, width)
        self.conv = LongConv(width, length) if implicit else ShortConv(width, kernel)
        self.exact_causality = not implicit  # Fourier transforms round over the whole row

    def initialise(self) -> None:
        """An implicit filter's MLP keeps PyTorch's law."""
        if isinstance(self.conv, LongConv):
            self.conv.filters.reset()

    def forward(self, x: Tensor) -> Tensor:  # (batch, length, width)
        return self.gate(x) * self.conv(x) + x

    def initial_state(self, batch: int) -> State:
        return {"conv": self.conv.initial_state(batch)}

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:  # x (batch, width)
        convolved, conv = self.conv.step(x, state["conv"])
        return self.gate(x) * convolved + x, {"conv": conv}

    def state_size(self, length: int) -> int:
        held = length if isinstance(self.conv, LongConv) else self.conv.weight.shape[1] - 1
        return held * self.gate.in_features

    def flops(self, length: int) -> int:
        return linear_flops(length, self.gate) + self.conv.flops(length)


class LongConv(nn.Module):
    """A convolution over all of the row, with implicit filters and a bias; `step` carries all of its inputs."""

    def __init__(self, channels: int, length: int):
        super().__init__()
        self.filters = ImplicitFilters(channels, 1, length, width=16, features=3)
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:  # (batch, length, channels) -> same
        return long_conv(x, self.filters(x.shape[1])[0].to(x.dtype)) + self.bias

    def initial_state(self, batch: int) -> Tensor:
        """(batch, 0, channels)."""
        return self.bias.new_zeros(batch, 0, len(self.bias))

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:  # x (batch, channels)
        history = torch.cat([state, x[:, None]], dim=1)
        filter = self.filters(history.shape[1])[0]  # (channels, seen)
        return (history.flip(1) * filter.T).sum(1) + self.bias, history

    def flops(self, length: int) -> int:
        """Floating-point operations for one sequence."""
        linears = (m for m in self.filters.modules() if isinstance(m, nn.Linear))
        return linear_flops(length, *linears) + long_conv_flops(length, len(self.bias))
