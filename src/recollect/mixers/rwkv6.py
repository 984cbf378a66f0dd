"""RWKV-6 time mixing (Peng et al. 2024, "Eagle and Finch: RWKV with Matrix-Valued States and Dynamic Recurrence").

    ddlerp_c(x_t) = x_t + (x_{t-1} - x_t) (mu_c + tanh((x_t + (x_{t-1} - x_t) mu_x) A) B_c)      c = w, k, v, r, g
    k, v, r = W ddlerp(x);   g = silu(W_g ddlerp_g(x));   w = e^{-e^{omega + tanh(ddlerp_w(x) A_w) B_w}}
    y_t = W_o (g norm(wkv6(r, k, v, w, u)))                            wkv6: see ops/wkv6.py; norm: head by head

Glossary: mu = how much of the token before; A, B = low-rank maps; w = decay; u = bonus of the present token; g = gate.
The paper's channel mixing corresponds to the model's MLP, so it is not part of this mixer.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recollect.mixers.base import Mixer, State, divides, map_flops
from recollect.mixers.rwkv import depth, ramp, shifted, zigzag
from recollect.ops.activations import silu
from recollect.ops.wkv6 import wkv6, wkv6_flops, wkv6_step


class RWKV6(Mixer):
    """RWKV-6's time mixing; `layer` of `layers` decides how decays and mixes start.

    head_dim: width of a head (a model narrower than that is one head).
    mix_rank, decay_rank: ranks of the maps that make token shift and decay depend on the input.

    Initial values: decays, bonuses, mixes and low-rank maps are the published code's; linear maps are by the model's default.
    """

    def __init__(
        self, width: int, *, layer: int, layers: int, head_dim: int = 64, mix_rank: int = 32, decay_rank: int = 64
    ):
        super().__init__()
        late, early = depth("rwkv6", layer, layers)
        self.dim = min(head_dim, width)
        heads = divides("rwkv6: head_dim", self.dim, width)
        channel = torch.arange(width) / width
        usual, eager = channel**early, channel ** (0.5 * early)
        mixes = [usual, usual, usual + 0.3 * late, eager, eager]
        self.mix_x = nn.Parameter(1 - usual)
        self.mu = nn.Parameter(1 - torch.stack(mixes))  # of w, k, v, r, g: (5, width)
        self.mix_A = nn.Parameter(torch.zeros(width, 5 * mix_rank))
        self.mix_B = nn.Parameter(torch.empty(5, mix_rank, width).uniform_(-0.01, 0.01))
        self.decay = nn.Parameter(-6 + 5 * ramp(width) ** (0.7 + 1.3 * late))
        self.decay_A = nn.Parameter(torch.zeros(width, decay_rank))
        self.decay_B = nn.Parameter(torch.empty(decay_rank, width).uniform_(-0.01, 0.01))
        self.bonus = nn.Parameter((late * (1 - ramp(width)) + 0.1 * zigzag(width)).view(heads, self.dim))
        self.receptance = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, width, bias=False)
        self.norm = HeadNorm(heads, self.dim)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # (batch, length, width)
        r, k, v, log_w, g = self._project(x, shifted(x))
        return self.out(self.norm(self._scan(r, k, v, log_w)).flatten(-2) * g)

    def mix(self, x: Tensor, values: Tensor | None = None) -> Tensor:  # (batch, length, heads, dim)
        r, k, v, log_w, _ = self._project(x, shifted(x))
        return self._scan(r, k, v if values is None else values, log_w)

    def signals(self, x: Tensor) -> dict[str, Tensor]:
        *_, log_w, g = self._project(x, shifted(x))
        return {"decay": log_w.exp().flatten(-2), "output gate": g}

    def _scan(self, *inputs: Tensor) -> Tensor:
        """wkv6 of r, k, v and the log decay, (batch, length, heads, dim) each."""
        r, k, v, log_w = (t.transpose(1, 2) for t in inputs)
        return wkv6(r, k, v, log_w, self.bonus).transpose(1, 2)

    def _project(self, x: Tensor, last: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """r, k, v and the log decay (..., heads, dim), and the gate (..., width)."""
        apart = last - x
        low = torch.tanh((x + apart * self.mix_x) @ self.mix_A).unflatten(-1, (5, -1))  # (..., 5, rank)
        parts = zip(self.mu, low.unbind(-2), self.mix_B, strict=True)
        w, k, v, r, g = (x + apart * (mu + part @ B) for mu, part, B in parts)
        speed = self.decay + torch.tanh(w @ self.decay_A) @ self.decay_B
        log_w = -speed.clamp(max=4).exp()  # e^{-e^4} = 2e-24 is negligible; larger speeds overflow
        r, k, v = self.receptance(r), self.key(k), self.value(v)
        r, k, v, log_w = (t.unflatten(-1, (-1, self.dim)) for t in (r, k, v, log_w))
        return r, k, v, log_w, silu(self.gate(g))

    def initial_state(self, batch: int) -> State:
        return start(self.bonus, batch)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:  # x (batch, width)
        r, k, v, log_w, g = self._project(x, state["last"])
        y, S = wkv6_step(r, k, v, log_w, self.bonus, state["S"])
        return self.out(self.norm(y).flatten(-2) * g), {"last": x, "S": S}

    def flops(self, length: int) -> int:
        low_rank = 2 * length * sum(t.numel() for t in (self.mix_A, self.mix_B, self.decay_A, self.decay_B))
        scan = self.bonus.shape[0] * wkv6_flops(length, self.dim, self.dim)
        return map_flops(length, self) + low_rank + scan


def start(like: Tensor, batch: int) -> State:
    """The state before the first token, for heads and channels (heads, dim) of `like`."""
    heads, dim = like.shape
    return {"last": like.new_zeros(batch, heads * dim), "S": like.new_zeros(batch, heads, dim, dim)}


class HeadNorm(nn.Module):
    """A layer norm over each head's channels (..., heads, dim), with a scale and a shift per channel."""

    def __init__(self, heads: int, dim: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(heads, dim))
        self.bias = nn.Parameter(torch.zeros(heads, dim))

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], eps=64e-5) * self.weight + self.bias
