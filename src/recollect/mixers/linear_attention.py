"""Linear attention: attention whose softmax is a product of features, so that a fixed state replaces the keys seen.

Glossary (Katharopoulos et al. 2020): q, k, v = queries, keys, values; phi = feature map; h = heads; d = width / heads.
"""

from typing import Literal

from torch import Tensor, nn

from recollect.mixers.attention import Convolved, convolutions
from recollect.mixers.base import Mixer, State, divides, map_flops
from recollect.ops.linear_attention import (
    Feature,
    feature_size,
    linear_attention,
    linear_attention_flops,
    linear_attention_step,
)


class LinearAttention(Mixer):
    """Causal multi-head linear attention.

    heads: how many heads the width is split into.
    feature: the feature map: elu (elu(x) + 1), relu, identity, or taylor (exp to second order: d dims give 1 + d + d^2
        features).
    feature_dim: dims of a head's queries and keys before the map; 0 takes 16 for taylor and width / heads otherwise.
    normalise: whether outputs are divided by the sum of their weights; auto divides except for identity, whose weights
        can be negative and sum to nearly zero.
    bias: whether the projections have biases.
    conv: which of the projections q, k, v read their input through a short convolution, each its own.
    kernel, conv_activation: length of those convolutions, and what follows them.
    conv_causal: whether those convolutions are causal; false centres them, so that they read kernel // 2 tokens ahead. The
        mixer is then not causal and has no `step`.

    Initial values: the projections by the model's default, as in Zoology, except `out`, which Zoology does not make smaller
    here; the convolutions as nn.Conv1d's.
    """

    def __init__(
        self, width: int, *, heads: int = 1, feature: Feature = "elu", feature_dim: int = 0,
        normalise: Literal["auto", "on", "off"] = "auto", bias: bool = True, conv: Convolved = "none", kernel: int = 4,
        conv_activation: Literal["none", "silu"] = "none", conv_causal: bool = True,
    ):  # fmt: skip
        super().__init__()
        head_dim = divides("linear_attention: heads", heads, width)
        self.heads = heads
        self.feature: Feature = feature
        self.feature_dim = feature_dim or (16 if feature == "taylor" else head_dim)
        self.normalise = normalise == "on" or (normalise == "auto" and feature != "identity")
        self.q = nn.Linear(width, heads * self.feature_dim, bias=bias)
        self.k = nn.Linear(width, heads * self.feature_dim, bias=bias)
        self.v = nn.Linear(width, width, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)
        self.convs = convolutions(conv, width, kernel, conv_activation, conv_causal)

    def forward(self, x: Tensor) -> Tensor:  # (batch, length, width)
        return self.out(self.mix(x).flatten(2))

    def mix(self, x: Tensor, values: Tensor | None = None) -> Tensor:  # (batch, length, h, d)
        q, k, v = self._project(x, {name: conv(x) for name, conv in self.convs.items()})
        q, k, v = (t.transpose(1, 2) for t in (q, k, v if values is None else values))  # (batch, h, length, dim)
        return linear_attention(q, k, v, self.feature, self.normalise).transpose(1, 2)

    def _project(self, x: Tensor, convolved: dict[str, Tensor]) -> list[Tensor]:
        """Queries, keys and values, each from x or from its own convolution of x: three of (..., h, dim)."""
        maps = {"q": self.q, "k": self.k, "v": self.v}
        return [to(convolved.get(name, x)).unflatten(-1, (self.heads, -1)) for name, to in maps.items()]

    def initial_state(self, batch: int) -> State:
        columns = self.out.in_features // self.heads + self.normalise  # the values, and the sum of weights to divide by
        sums = self.out.weight.new_zeros(batch, self.heads, feature_size(self.feature, self.feature_dim), columns)
        return {"sums": sums} | {f"conv_{name}": conv.initial_state(batch) for name, conv in self.convs.items()}

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:  # x (batch, width)
        convolved, new = {}, {}
        for name, conv in self.convs.items():
            convolved[name], new[f"conv_{name}"] = conv.step(x, state[f"conv_{name}"])
        q, k, v = self._project(x, convolved)  # (batch, h, dim)
        y, sums = linear_attention_step(q, k, v, state["sums"], self.feature, self.normalise)
        return self.out(y.flatten(1)), {"sums": sums, **new}

    def flops(self, length: int) -> int:
        dim_v = self.out.in_features // self.heads
        one = linear_attention_flops(length, self.feature_dim, dim_v, self.feature, self.normalise)
        return map_flops(length, self) + self.heads * one
