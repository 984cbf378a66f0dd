"""GLA (Yang et al. 2023): linear attention with a decay for each key channel and token, and an output gate.

    alpha_t = sigmoid(W_2 W_1 x_t + b)^(1/16)        y = W_out (norm(read) * silu(W_r x))

Glossary: q, k, v = queries, keys, values; alpha = how much of each row of the state S is kept; r = the output gate;
h = heads; d = width / heads. Keys are half as long as values, as in the paper.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from recollect.mixers.base import Mixer, State, divides, map_flops
from recollect.ops.activations import silu
from recollect.ops.gated_linear_attention import (
    gated_linear_attention,
    gated_linear_attention_flops,
    gated_linear_attention_step,
)

TEMPERATURE = 16  # the root taken of the sigmoid: decays start near 1


class GLA(Mixer):
    """Gated linear attention.

    heads: how many heads the width is split into.
    rank: rank of the map from the input to the decays.
    norm_eps: what is added to the mean square in the norm of the output; 1e-5 in flash-linear-attention (fla) and Zoology.

    Initial values: Zoology's (linear maps by the model's default) except `out`, which Zoology does not make smaller. The output
    gate has a bias that theirs lacks; it starts at zero.
    """

    def __init__(self, width: int, *, heads: int = 2, rank: int = 16, norm_eps: float = 1e-5):
        super().__init__()
        head_dim = divides("gla: heads", heads, width)
        self.heads, self.key_dim = heads, max(1, head_dim // 2)
        keys = heads * self.key_dim
        self.qkv = nn.Linear(width, 2 * keys + width, bias=False)
        self.decay = nn.Sequential(nn.Linear(width, rank, bias=False), nn.Linear(rank, keys))
        self.r = nn.Linear(width, width)
        self.norm = nn.RMSNorm(head_dim, eps=norm_eps)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # (batch, length, width)
        return self._finish(self.mix(x), x)

    def mix(self, x: Tensor, values: Tensor | None = None) -> Tensor:  # (batch, length, h, d)
        q, k, v, log_alpha = self._project(x)
        q, k, v, log_alpha = (t.transpose(1, 2) for t in (q, k, v if values is None else values, log_alpha))
        return gated_linear_attention(q, k, v, log_alpha).transpose(1, 2)

    def signals(self, x: Tensor) -> dict[str, Tensor]:
        return {"decay": self._project(x)[3].exp().flatten(-2), "output gate": silu(self.r(x))}

    def _project(self, x: Tensor) -> list[Tensor]:
        """q, k, v and the log of alpha: four of (..., h, dim)."""
        keys = self.heads * self.key_dim
        q, k, v = self.qkv(x).split((keys, keys, x.shape[-1]), dim=-1)
        log_alpha = F.logsigmoid(self.decay(x)) / TEMPERATURE
        return [t.unflatten(-1, (self.heads, -1)) for t in (q * self.key_dim**-0.5, k, v, log_alpha)]

    def _finish(self, y: Tensor, x: Tensor) -> Tensor:
        """From the heads' readings (..., h, d) to the output (..., width)."""
        return self.out(self.norm(y).flatten(-2) * silu(self.r(x)))

    def initial_state(self, batch: int) -> State:
        head_dim = self.out.in_features // self.heads
        return {"S": self.out.weight.new_zeros(batch, self.heads, self.key_dim, head_dim)}

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:  # x (batch, width)
        q, k, v, log_alpha = self._project(x)  # (batch, h, dim)
        y, memory = gated_linear_attention_step(q, k, v, log_alpha, state["S"])
        return self._finish(y, x), {"S": memory}

    def flops(self, length: int) -> int:
        one = gated_linear_attention_flops(length, self.key_dim, self.out.in_features // self.heads)
        return map_flops(length, self) + self.heads * one
