"""Based: Taylor linear attention and a local mixer.

Zoology form (Arora et al. 2023): BaseConv in layers 0, 2, ..; Taylor linear attention in layers 1, 3, ..
Paper form (Arora et al. 2024): sliding-window softmax attention in place of BaseConv. (Their language models also keep
convolutions in more than half of the layers: give those by a pattern of layers.)

A model of one layer would have no linear attention, so there the layer holds both, one after the other: linear
attention reads BaseConv(x), which includes x, or x + window(x). Its output is the layer's.
"""

from typing import Literal, cast

from torch import Tensor, nn

from recollect.mixers.attention import Attention
from recollect.mixers.base import Mixer, State
from recollect.mixers.base_conv import BaseConv
from recollect.mixers.linear_attention import LinearAttention


class Based(Mixer):
    """One layer of Based: its local mixer, its linear attention, or in a model of one layer the second after the first.

    form: what the local mixer is: BaseConv (zoology) or sliding-window attention (paper).
    heads: heads of the attentions.
    feature_dim: dims of a head's queries and keys in linear attention, before Taylor's 1 + d + d^2 features.
    kernel: length of BaseConv's convolution (zoology).
    window: how many tokens back a query sees, itself included (paper).

    Initial values: those of its parts.
    """

    wants_positions = True  # Okpekpe & Orvieto, A.2

    def __init__(
        self, width: int, *, form: Literal["zoology", "paper"] = "zoology", heads: int = 1, feature_dim: int = 16,
        kernel: int = 3, window: int = 16, layer: int = 0, layers: int = 1,
    ):  # fmt: skip
        super().__init__()
        parts: dict[str, Mixer] = {}
        if layers == 1 or layer % 2 == 0:
            local = Attention(width, heads=heads, window=window, bias=False)
            parts["local"] = local if form == "paper" else BaseConv(width, kernel=kernel)
        if layers == 1 or layer % 2 == 1:
            parts["taylor"] = LinearAttention(width, heads=heads, feature="taylor", feature_dim=feature_dim, bias=False)
        self.adds_input = form == "paper"  # BaseConv has its input in its output
        self.parts = cast(dict[str, Mixer], nn.ModuleDict(parts))

    def forward(self, x: Tensor) -> Tensor:  # (batch, length, width)
        for name, part in self.parts.items():
            x = self._onward(name, x, part(x))
        return x

    def _onward(self, name: str, x: Tensor, y: Tensor) -> Tensor:
        """The input of the next part: a part's output, plus its input where linear attention follows."""
        return x + y if self.adds_input and name == "local" and len(self.parts) == 2 else y

    def initial_state(self, batch: int) -> State:
        states = {name: part.initial_state(batch) for name, part in self.parts.items()}
        return {f"{name}.{key}": held for name, state in states.items() for key, held in state.items()}

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:  # x (batch, width)
        new = {}
        for name, part in self.parts.items():
            own = {key.removeprefix(f"{name}."): held for key, held in state.items() if key.startswith(f"{name}.")}
            y, after = part.step(x, own)
            new |= {f"{name}.{key}": value for key, value in after.items()}
            x = self._onward(name, x, y)
        return x, new

    def state_size(self, length: int) -> int:
        return sum(part.state_size(length) for part in self.parts.values())

    def flops(self, length: int) -> int:
        return sum(part.flops(length) for part in self.parts.values())
