"""Mamba2 (Dao & Gu 2024): heads with one scalar decay each, so that the scan is made of matrix products.

    z, (x, B, C), dt = W_in x        x, B, C = silu(conv(x, B, C))        dt = softplus(dt + b_dt)
    h_t = exp(dt_t A) h_{t-1} + dt_t B_t x_t^T        y_t = h_t^T C_t + D x_t        (ops/mamba2.py)
    out = W_out RMSNorm(y * silu(z)), group by group

Glossary: dt = step size of a head; A, B, C, D = the state-space model's; n = state; p = head dim; z = gate;
inner = expand x width = heads x p.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recollect.mixers.base import Mixer, State, divides, map_flops
from recollect.mixers.mamba import step_size_bias
from recollect.ops.activations import silu, softplus
from recollect.ops.mamba2 import EPS, fused_mamba2, unpacked
from recollect.ops.short_conv import ShortConv
from recollect.ops.ssd import ssd, ssd_step


class Mamba2(Mixer):
    """Mamba2's own block. It is used without an MLP.

    state: size n of B and C; a head's state is n x p.
    head_dim: p; 0 takes 64, or where 64 does not divide the inner width, the largest smaller number that does.
    kernel: length of the short convolution.
    expand: how many times the width the inner width is.
    groups: how many B and C there are, each shared by its part of the heads, whose outputs are normalised together.
    dt_min, dt_max: step sizes at the start, log-uniform between these.

    Initial values: A, D, dt and the convolution are published Mamba2's; linear maps are by the model's default.
    """

    def __init__(
        self, width: int, *, state: int = 64, head_dim: int = 0, kernel: int = 4, expand: int = 2, groups: int = 1,
        dt_min: float = 1e-3, dt_max: float = 0.1,
    ):  # fmt: skip
        super().__init__()
        inner = expand * width
        self.heads = scan_heads("mamba2", inner, head_dim, groups)
        self.state, self.groups, self.dt_min, self.dt_max = state, groups, dt_min, dt_max
        convolved = inner + 2 * groups * state
        self.in_proj = nn.Linear(width, inner + convolved + self.heads, bias=False)  # z, then x, B, C, then dt
        self.conv = ShortConv(convolved, kernel, activation="silu")
        self.dt_bias = nn.Parameter(torch.empty(self.heads))
        self.A_log = nn.Parameter(torch.empty(self.heads))
        self.D = nn.Parameter(torch.empty(self.heads))
        self.norm = NormByGroup(inner, groups)
        self.out = nn.Linear(inner, width, bias=False)
        self.initialise()

    @torch.no_grad()
    def initialise(self) -> None:
        self.dt_bias.copy_(step_size_bias(self.dt_bias, self.dt_min, self.dt_max))
        self.A_log.uniform_(1, 16).log_()
        self.D.fill_(1)

    def forward(self, x: Tensor) -> Tensor:  # (batch, length, width)
        y = fused_mamba2(x, self.in_proj, self.conv, self.norm, self.dt_bias, self.A_log, self.D, self.groups)
        if y is None:
            z, xBC, dt = self._project(x)
            y = self.norm(self._scan(*self._split(self.conv(xBC)), dt).flatten(-2) * silu(z))
        return self.out(y)

    def mix(self, x: Tensor, values: Tensor | None = None) -> Tensor:  # (batch, length, heads, p)
        _, xBC, dt = self._project(x)
        v, B, C = self._split(self.conv(xBC))
        return self._scan(v if values is None else values, B, C, dt)

    def signals(self, x: Tensor) -> dict[str, Tensor]:
        z, _, dt = self._project(x)
        return {"step size": dt, "decay": (-self.A_log.exp() * dt).exp(), "output gate": silu(z)}

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """z, x with B and C before their convolution, and dt."""
        z, xBC, dt = self.in_proj(x).split([self.out.in_features, len(self.conv.weight), self.heads], dim=-1)
        return z, xBC, softplus(dt + self.dt_bias)

    def _split(self, xBC: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x (..., heads, p), B and C (..., heads or 1, n)."""
        return unpacked(xBC, self.out.in_features, self.heads, self.groups)

    def _scan(self, x: Tensor, B: Tensor, C: Tensor, dt: Tensor) -> Tensor:
        return ssd(x * dt[..., None], -self.A_log.exp() * dt, B, C) + self.D[:, None] * x

    def initial_state(self, batch: int) -> State:
        head_dim = self.out.in_features // self.heads
        ssm = self.A_log.new_zeros(batch, self.heads, self.state, head_dim)
        return {"ssm": ssm, "conv": self.conv.initial_state(batch)}

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:  # x (batch, width)
        z, xBC, dt = self._project(x)
        xBC, window = self.conv.step(xBC, state["conv"])
        x, B, C = self._split(xBC)
        y, h = ssd_step(x * dt[..., None], -self.A_log.exp() * dt, B, C, state["ssm"])
        y = y + self.D[:, None] * x  # (batch, heads, p)
        return self.out(self.norm(y.flatten(-2) * silu(z))), {"ssm": h, "conv": window}

    def flops(self, length: int) -> int:
        scan = 5 * length * self.state * self.out.in_features  # the recurrence's: decay h, B x^T, their sum, and h^T C
        return map_flops(length, self) + scan


class NormByGroup(nn.RMSNorm):
    """A root-mean-square norm of each group of channels by itself, with one scale per channel."""

    def __init__(self, width: int, groups: int):
        super().__init__(width, eps=EPS)
        self.groups = groups

    def forward(self, x: Tensor) -> Tensor:
        if self.groups == 1:
            return super().forward(x)
        x = x.unflatten(-1, (self.groups, -1))
        return F.rms_norm(x, x.shape[-1:], eps=EPS).flatten(-2) * self.weight


def scan_heads(name: str, inner: int, head_dim: int, groups: int) -> int:
    """How many heads of `head_dim` channels the inner width has; 0 takes 64, or the next smaller number that divides it. `groups`
    must divide them."""
    head_dim = head_dim or max(n for n in range(1, min(64, inner) + 1) if inner % n == 0)
    heads = divides(f"{name}: head_dim of the inner width", head_dim, inner)
    divides(f"{name}: groups", groups, heads, "heads")
    return heads
