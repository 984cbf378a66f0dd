"""RetNet (Sun et al. 2023): linear attention with rotary positions and a fixed decay, slower from head to head.

    S_t = gamma_h S_{t-1} + k_t^T v_t        gamma_h = 1 - 2^(-5-h), h = 0, 1, ..
    y_t = W_out (norm(q_t S_t) * silu(W_g x_t))

Glossary: q, k, v = queries, keys, values, q and k rotated by rotary positions; gamma = decay; g = the output gate;
h = heads; d = width / heads.
"""

import torch
from torch import Tensor, nn

from recollect.mixers.base import Mixer, State, divides, map_flops
from recollect.ops.activations import silu
from recollect.ops.positions import rotary
from recollect.ops.ssd import ssd, ssd_step


class RetNet(Mixer):
    """Multi-scale retention. It has its own rotary positions.

    heads: how many heads the width is split into.

    Initial values: linear maps by the model's default (the published code draws them by Xavier's).
    """

    def __init__(self, width: int, *, heads: int = 2):
        super().__init__()
        head_dim = divides("retnet: heads", heads, width)
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.g = nn.Linear(width, width, bias=False)
        self.norm = nn.RMSNorm(head_dim, eps=1e-6, elementwise_affine=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # (batch, length, width)
        return self._finish(self.mix(x), x)

    def mix(self, x: Tensor, values: Tensor | None = None) -> Tensor:  # (batch, length, h, d)
        q, k, v = self._project(x, torch.arange(x.shape[1], device=x.device))
        return ssd(v if values is None else values, self._log_gamma(v), k, q)

    def _project(self, x: Tensor, position: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated queries, rotated and scaled keys, and values: three of (batch, length, h, d)."""
        q, k, v = (t.unflatten(-1, (self.heads, -1)) for t in self.qkv(x).chunk(3, dim=-1))
        q, k = (rotary(t.transpose(1, 2), position).transpose(1, 2) for t in (q, k))
        return q, k * k.shape[-1] ** -0.5, v

    def _log_gamma(self, v: Tensor) -> Tensor:
        """The log of the decay at every token: (batch, length, h)."""
        head = torch.arange(self.heads, device=v.device, dtype=torch.float64)
        return torch.log1p(-(2 ** (-5 - head))).to(v.dtype).expand(v.shape[:-1])

    def _finish(self, y: Tensor, x: Tensor) -> Tensor:
        """From the heads' readings (..., h, d) to the output (..., width)."""
        return self.out(self.norm(y).flatten(-2) * silu(self.g(x)))

    def initial_state(self, batch: int) -> State:
        like, head_dim = self.out.weight, self.out.in_features // self.heads
        position = torch.zeros(batch, dtype=torch.int64, device=like.device)
        return {"S": like.new_zeros(batch, self.heads, head_dim, head_dim), "position": position}

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:  # x (batch, width)
        now = state["position"][:1]  # every row of a batch is at the same position
        q, k, v = (t[:, 0] for t in self._project(x[:, None], now))  # (batch, h, d)
        y, memory = ssd_step(v, self._log_gamma(v), k, q, state["S"])
        return self._finish(y, x), {"S": memory, "position": state["position"] + 1}

    def flops(self, length: int) -> int:
        scan = 5 * length * self.state_size(length)  # the recurrence's: decay S, k v^T, their sum, and S^T q
        return map_flops(length, self) + scan
