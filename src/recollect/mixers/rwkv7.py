"""RWKV-7 time mixing (Peng et al. 2025, "RWKV-7 Goose with Expressive Dynamic State Evolution").

    x_c = x_t + (x_{t-1} - x_t) mu_c                                   c = r, w, k, v, a, g
    r, k, v = W x;    log_w = -e^{-1/2} sigmoid(w_0 + tanh(x_w A_w) B_w)
    a = sigmoid(a_0 + x_a A_a B_a);    g = sigmoid(x_g A_g) B_g
    kappa = normalised(k xi);    k' = k (1 + (a - 1) alpha)
    y_t = W_o (g (norm(wkv7(r, k', v, log_w, -kappa, a kappa)) + (r . rho k') v))      wkv7: see ops/wkv7.py

Glossary: mu = how much of the token before; a = rate at which the state is rewritten (in context); kappa = removal key;
xi, alpha = removal and replacement scales; rho = bonus of the present token; g = gate; A, B = low-rank maps.
Left out: from its second layer on, the paper mixes v with the first layer's v. A mixer sees its own layer only.
The paper's channel mixing corresponds to the model's MLP, so it is not part of this mixer.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recollect.mixers.base import Mixer, State, divides, map_flops
from recollect.mixers.rwkv import depth, ramp, shifted
from recollect.mixers.rwkv6 import HeadNorm, start
from recollect.ops.activations import sigmoid
from recollect.ops.wkv7 import wkv7, wkv7_flops, wkv7_step


class RWKV7(Mixer):
    """RWKV-7's time mixing; `layer` of `layers` decides how decays and mixes start.

    head_dim: width of a head (a model narrower than that is one head).

    Initial values: decays, rates, scales, mixes and low-rank maps are the published code's; linear maps are by the model's
    default.
    """

    def __init__(self, width: int, *, layer: int, layers: int, head_dim: int = 64):
        super().__init__()
        late, early = depth("rwkv7", layer, layers)
        self.dim = min(head_dim, width)
        heads = divides("rwkv7: head_dim", self.dim, width)
        channel = torch.arange(width) / width
        powers = {"r": (0.2, 0.0), "w": (0.9, 0.0), "k": (0.9, 0.4), "v": (0.4, 0.6), "a": (0.9, 0.0), "g": (0.2, 0.0)}
        self.mu = nn.Parameter(torch.stack([1 - (channel ** (p * early) + q * late) for p, q in powers.values()]))
        self.decay = nn.Parameter(-6.5 + 5 * ramp(width) ** (0.85 + late**0.5))
        self.decay_A, self.decay_B = _low_rank(width, 1.8 * width**0.5)
        self.rate = nn.Parameter(torch.zeros(width))
        self.rate_A, self.rate_B = _low_rank(width, 1.8 * width**0.5)
        self.gate_A, self.gate_B = _low_rank(width, 0.6 * width**0.8)
        self.removal = nn.Parameter(torch.full((width,), 0.85))
        self.replacement = nn.Parameter(torch.ones(width))
        self.bonus = nn.Parameter(torch.zeros(heads, self.dim))
        self.receptance = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.norm = HeadNorm(heads, self.dim)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # (batch, length, width)
        r, k, v, *others, g = self._project(x, shifted(x))
        return self._read(self._scan(r, k, v, *others), r, k, v, g)

    def mix(self, x: Tensor, values: Tensor | None = None) -> Tensor:  # (batch, length, heads, dim)
        r, k, v, *others, _ = self._project(x, shifted(x))
        return self._scan(r, k, v if values is None else values, *others)

    def signals(self, x: Tensor) -> dict[str, Tensor]:
        _, _, _, log_w, minus_kappa, removed, gate = self._project(x, shifted(x))
        rate = -(removed * minus_kappa).sum(-1)  # kappa has length 1, so this weighs a's channels by kappa squared
        return {"decay": log_w.exp().flatten(-2), "removal rate": rate, "output gate": gate}

    def _scan(self, *inputs: Tensor) -> Tensor:
        """wkv7 of its six inputs, (batch, length, heads, dim) each."""
        return wkv7(*(t.transpose(1, 2) for t in inputs)).transpose(1, 2)

    def _project(self, x: Tensor, last: Tensor) -> tuple[Tensor, ...]:
        """The inputs of wkv7: r, k, v, log decay, minus kappa and a kappa (..., heads, dim); and the gate (..., width)."""
        r, w, k, v, a, g = (x[..., None, :] + (last - x)[..., None, :] * self.mu).unbind(-2)
        log_w = -math.exp(-0.5) * sigmoid(self.decay + torch.tanh(w @ self.decay_A) @ self.decay_B)
        a = sigmoid(self.rate + (a @ self.rate_A) @ self.rate_B)
        r, k, v = self.receptance(r), self.key(k), self.value(v)
        kappa = F.normalize((k * self.removal).unflatten(-1, (-1, self.dim)), dim=-1)
        k = k * (1 + (a - 1) * self.replacement)
        r, k, v, log_w, a = (t.unflatten(-1, (-1, self.dim)) for t in (r, k, v, log_w, a))
        return r, k, v, log_w, -kappa, a * kappa, sigmoid(g @ self.gate_A) @ self.gate_B

    def _read(self, y: Tensor, r: Tensor, k: Tensor, v: Tensor, g: Tensor) -> Tensor:
        """The mixer's output: what is read from the state and the present token's bonus, gated."""
        y = self.norm(y) + (r * self.bonus * k).sum(-1, keepdim=True) * v
        return self.out(y.flatten(-2) * g)

    def initial_state(self, batch: int) -> State:
        return start(self.bonus, batch)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:  # x (batch, width)
        r, k, v, log_w, a, b, g = self._project(x, state["last"])
        y, S = wkv7_step(r, k, v, log_w, a, b, state["S"])
        return self._read(y, r, k, v, g), {"last": x, "S": S}

    def flops(self, length: int) -> int:
        low_rank = (self.decay_A, self.decay_B, self.rate_A, self.rate_B, self.gate_A, self.gate_B)
        scan = self.bonus.shape[0] * wkv7_flops(length, self.dim, self.dim)
        return map_flops(length, self) + 2 * length * sum(t.numel() for t in low_rank) + scan


def _low_rank(width: int, size: float) -> tuple[nn.Parameter, nn.Parameter]:
    """A, zero, and B, a tenth of orthogonal; the rank is `size` to the nearest multiple of 32, at least one."""
    rank = max(32, round(size / 32) * 32)
    return nn.Parameter(torch.zeros(width, rank)), nn.Parameter(nn.init.orthogonal_(torch.empty(rank, width), gain=0.1))
