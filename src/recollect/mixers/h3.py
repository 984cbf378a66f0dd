"""H3 (Fu et al. 2023, "Hungry Hungry Hippos"): y = W_o (q . SSM_diagonal(SSM_shift(k) v^T)), head by head.

    SSM_shift:     k'_t = sum_{j < N} S_j k_{t-j} + D_s k_t          one learned filter of N taps per channel
    SSM_diagonal:  s_t = p s_{t-1} + u_t,   y_t = 2 Re(C b . s_t) + D u_t                one per head (S4D)
        bilinear:  p = (1 + dt A / 2) / (1 - dt A / 2),   b = dt / (1 - dt A / 2)
        zoh:       p = e^{dt A},                          b = (e^{dt A} - 1) / A         (zero-order hold)

Glossary: q, k, v = queries, keys, values; N = state; u = k' v^T, an entry of a head's outer product; A = -decay + i
frequency, N / 2 of them (each represents a conjugate pair); dt = step; p = pole; C = read-out; D, D_s = skips.
Complex numbers are pairs of reals on the last axis: PyTorch's complex product on the CPU rounds a tensor's last
elements differently from the others, and a member's bits would depend on the other members.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from recollect.mixers.base import Mixer, State, divides, map_flops
from recollect.ops.diagonal_scan import complex_product
from recollect.ops.long_conv import long_conv, long_conv_flops


class H3(Mixer):
    """H3 with a true recurrent form: the last `state` keys and the diagonal SSM's states.

    head_dim: width of a head; queries meet outer products of keys and values of that size.
    state: N, taps of the shift and size of the diagonal state; 0: as many as the longest row (64 is common elsewhere).
    discretise: how the diagonal SSM becomes a recurrence: bilinear, the default of H3's own code and of Zoology, or zoh,
        zero-order hold.

    Initial values: those of H3's own code and of Zoology: the shift as nn.Conv1d's, skips from N(0, 1), A, dt and C as S4D's.
    Linear maps by the model's default, which is theirs except `out`, which Zoology does not make smaller here.
    """

    exact_causality = False  # Fourier transforms are causal up to rounding

    def __init__(
        self, width: int, *, length: int, head_dim: int = 2, state: int = 0,
        discretise: Literal["bilinear", "zoh"] = "bilinear",
    ):  # fmt: skip
        super().__init__()
        divides("h3: head_dim", head_dim, width)
        self.head_dim, self.heads, self.state = head_dim, width // head_dim, state or length
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        bound = self.state**-0.5  # as nn.Conv1d starts with one channel per group
        self.shift = nn.Parameter(torch.empty(width, self.state).uniform_(-bound, bound))
        self.shift_skip = nn.Parameter(torch.randn(width))
        self.diagonal = DiagonalSSM(self.heads, self.state, discretise)

    def forward(self, x: Tensor) -> Tensor:  # (batch, length, width)
        return self.out(self.mix(x).flatten(-2))

    def mix(self, x: Tensor, values: Tensor | None = None) -> Tensor:  # (batch, length, heads, head_dim)
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        k = long_conv(k, self.shift) + self.shift_skip * k
        q, k, v = self._by_head(q, k, v)
        return _read(q, self.diagonal(_outer(k, v if values is None else values)))

    def _by_head(self, *parts: Tensor) -> list[Tensor]:
        """(..., width) -> (..., heads, head_dim)."""
        return [t.unflatten(-1, (self.heads, self.head_dim)) for t in parts]

    def initial_state(self, batch: int) -> State:
        keys = self.shift.new_zeros(batch, self.state, self.qkv.in_features)
        diagonal = self.shift.new_zeros(batch, self.heads, self.head_dim**2, *self.diagonal.C.shape[1:])
        return {"keys": keys, "diagonal": diagonal}

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:  # x (batch, width)
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        keys = torch.cat([state["keys"][:, 1:], k[:, None]], dim=1)  # (batch, N, width)
        k = (keys.flip(1) * self.shift.T).sum(1) + self.shift_skip * k
        q, k, v = self._by_head(q, k, v)
        y, diagonal = self.diagonal.step(_outer(k, v), state["diagonal"])
        return self.out(_read(q, y).flatten(-2)), {"keys": keys, "diagonal": diagonal}

    def flops(self, length: int) -> int:
        width, entries = self.qkv.in_features, self.qkv.in_features * self.head_dim
        convolutions = long_conv_flops(length, width) + long_conv_flops(length, entries)
        return map_flops(length, self) + convolutions + 2 * length * (self.diagonal.C.numel() + entries)


class DiagonalSSM(nn.Module):
    """S4D (Gu et al. 2022) with its linear initialisation: A_n = -1/2 + i pi n, dt log-uniform in [0.001, 0.1]."""

    def __init__(self, heads: int, state: int, discretise: Literal["bilinear", "zoh"]):
        super().__init__()
        self.discretise = discretise
        pairs = (state + 1) // 2
        self.log_dt = nn.Parameter(torch.empty(heads).uniform_(math.log(1e-3), math.log(0.1)))
        self.log_decay = nn.Parameter(torch.full((heads, pairs), math.log(0.5)))
        self.frequency = nn.Parameter(math.pi * torch.arange(pairs).expand(heads, pairs).clone())
        self.C = nn.Parameter(torch.randn(heads, pairs, 2) * 0.5**0.5)
        self.D = nn.Parameter(torch.randn(heads))

    def forward(self, u: Tensor) -> Tensor:  # (batch, length, heads, entries) -> same
        filter = self.filter(u.shape[1]).repeat_interleave(u.shape[3], dim=0)  # (heads * entries, length)
        y = long_conv(u.flatten(2), filter).view_as(u)
        return y + self.D[:, None] * u

    def step(self, u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """u (batch, heads, entries), state (batch, heads, entries, N / 2, 2)."""
        pole, read_out = self._discrete()
        state = complex_product(state, pole[:, None])
        state = torch.stack([state[..., 0] + u[..., None], state[..., 1]], dim=-1)
        y = complex_product(state, read_out[:, None])[..., 0].sum(-1)
        return y + self.D[:, None] * u, state

    def filter(self, length: int) -> Tensor:
        """Its response to an impulse: (heads, length).

        With t = a + b, p^t = p^a p^b: the product of two tables of about sqrt(length) powers.
        """
        bits = (length - 1).bit_length()
        pole, read_out = self._discrete()
        low, pole = _powers(pole, (bits + 1) // 2)  # (heads, N / 2, times, 2)
        high, _ = _powers(pole, bits // 2)
        high = complex_product(high, read_out[:, :, None])
        low = torch.stack([low[..., 0], -low[..., 1]], dim=-1)
        table = torch.einsum("hnac,hnbc->hab", high, low)  # the real part of the product, summed over n
        return table.flatten(1)[:, :length]

    def _discrete(self) -> tuple[Tensor, Tensor]:
        """The pole p, and 2 C b, with which the state is read: (heads, N / 2, 2) each."""
        dt, decay = self.log_dt.exp()[:, None], self.log_decay.exp()
        if self.discretise == "bilinear":
            a, w = dt * decay / 2, dt * self.frequency / 2  # 1 - dt A / 2 = 1 + a - i w
            size = ((1 + a).square() + w.square())[..., None]
            pole = torch.stack([1 - a.square() - w.square(), 2 * w], dim=-1) / size
            b = dt[..., None] * torch.stack([1 + a, w], dim=-1) / size
        else:
            angle = dt * self.frequency
            radius = (-dt * decay).exp()
            pole = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=-1)
            less_one = torch.expm1(-dt * decay) * angle.cos() - 2 * (0.5 * angle).sin() ** 2  # without cancellation
            conjugate = torch.stack([-decay, -self.frequency], dim=-1) / (decay**2 + self.frequency**2)[..., None]
            b = complex_product(torch.stack([less_one, pole[..., 1]], dim=-1), conjugate)
        return pole, 2 * complex_product(self.C, b)


def _outer(k: Tensor, v: Tensor) -> Tensor:
    """Keys (..., head_dim) and values (..., dim) to k v^T, (..., head_dim * dim)."""
    return (k[..., None] * v[..., None, :]).flatten(-2)


def _read(q: Tensor, y: Tensor) -> Tensor:
    """Queries (..., head_dim) applied to (..., head_dim * dim): (..., dim)."""
    return (q[..., None] * y.unflatten(-1, (q.shape[-1], -1))).sum(-2)


def _powers(z: Tensor, doublings: int) -> tuple[Tensor, Tensor]:
    """1, z, z^2, .. on a new axis before the last, 2^doublings of them, and the power that comes next."""
    powers = torch.stack([torch.ones_like(z[..., :1]), torch.zeros_like(z[..., :1])], dim=-1)
    for _ in range(doublings):
        powers = torch.cat([powers, complex_product(powers, z[..., None, :])], dim=-2)
        z = complex_product(z, z)
    return powers, z
