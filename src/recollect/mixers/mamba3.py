"""Mamba-3 with one input and one output per channel (SISO; Lahoti et al. 2026): Mamba2 with a rotating state, a second-order
rule for its steps, and no convolution.

    z, x, B, C, dt, A, lambda, omega = W_in x        dt = softplus(dt + b_dt)    A = -softplus(A)    lambda = sigmoid(lambda)
    B, C = R(phi_t) (norm(B, C) + biases)            phi_t = phi_{t-1} + dt pi tanh(omega), in pairs of channels
    h_t = alpha_t h_{t-1} + beta_t B_{t-1} x_{t-1}^T + gamma_t B_t x_t^T        y_t = h_t^T C_t + D x_t
    alpha = exp(dt A)    beta = (1 - lambda) dt alpha    gamma = lambda dt      out = W_out (y * silu(z))

Rotating B and C by the same running angle is equivalent to a complex decay. beta and gamma weigh the ends of a step
(generalised trapezoidal rule). From t on, token t - 1 has the sum of its own gamma and of beta_t as its weight,
so one scan (ops/ssd.py) of the tokens before, plus each token's own part, gives y.

Glossary: dt = step size of a head; n = state; p = head dim; z = gate; inner = expand x width = heads x p; R = rotation.
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recollect.mixers.base import Mixer, State, map_flops
from recollect.mixers.mamba import step_size_bias
from recollect.mixers.mamba2 import scan_heads
from recollect.ops.activations import sigmoid, silu, softplus
from recollect.ops.positions import turned, turned_along
from recollect.ops.ssd import ssd
from recollect.spec import SpecError


class Mamba3(Mixer):
    """Mamba-3's own block (SISO). It has no convolution.

    state: size n of B and C; a head's state is n x p. Even.
    head_dim: p; 0 takes 64, or where 64 does not divide the inner width, the largest smaller number that does.
    expand: how many times the width the inner width is.
    groups: how many B and C there are before their biases, each shared by its part of the heads.
    rotary_fraction: share of the state's channels that rotate.
    decay: how A comes from the input: softplus, as in the paper, or heavy_tail, which is 1 + a above zero and 1 / (1 - a) below,
        as in later published code, against divergence at high rates.
    decay_min: the least that -A can be.
    dt_min, dt_max: step sizes at the start, log-uniform between these.

    Initial values: dt, D, and the biases of B and C, which are one, are the published ones; linear maps are by the model's
    default.
    """

    def __init__(
        self, width: int, *, state: int = 64, head_dim: int = 0, expand: int = 2, groups: int = 1,
        rotary_fraction: float = 0.5, decay: Literal["softplus", "heavy_tail"] = "softplus", decay_min: float = 1e-4,
        dt_min: float = 1e-3, dt_max: float = 0.1,
    ):  # fmt: skip
        super().__init__()
        inner = expand * width
        self.heads = scan_heads("mamba3", inner, head_dim, groups)
        angles = int(state * rotary_fraction) // 2
        if state < 2 or state % 2 or not 0 < rotary_fraction <= 1 or angles < 1:
            sizes = f"state {state} with rotary_fraction {rotary_fraction}"
            hint = "choose an even state and a share above 0, up to 1"
            raise SpecError(f"mamba3: {sizes} leaves no pair of channels to rotate; {hint}")
        self.state, self.groups, self.decay, self.decay_min = state, groups, decay, decay_min
        self.dt_min, self.dt_max = dt_min, dt_max
        self.sizes = [inner, inner, groups * state, groups * state, self.heads, self.heads, self.heads, angles]
        self.in_proj = nn.Linear(width, sum(self.sizes), bias=False)  # z, x, B, C, dt, A, lambda, omega
        self.norms = nn.ModuleList(nn.RMSNorm(state, eps=1e-5) for _ in "BC")
        self.B_bias = nn.Parameter(torch.ones(self.heads, state))
        self.C_bias = nn.Parameter(torch.ones(self.heads, state))
        self.dt_bias = nn.Parameter(torch.empty(self.heads))
        self.D = nn.Parameter(torch.ones(self.heads))
        self.out = nn.Linear(inner, width, bias=False)
        self.initialise()

    @torch.no_grad()
    def initialise(self) -> None:
        self.dt_bias.copy_(step_size_bias(self.dt_bias, self.dt_min, self.dt_max))

    def forward(self, x: Tensor) -> Tensor:  # (batch, length, width)
        parts = self._project(x)
        return self.out(self._scan(*parts[1:]).flatten(-2) * silu(parts[0]))

    def mix(self, x: Tensor, values: Tensor | None = None) -> Tensor:  # (batch, length, heads, p)
        _, v, *others = self._project(x)
        return self._scan(v if values is None else values, *others)

    def signals(self, x: Tensor) -> dict[str, Tensor]:
        z, _, _, _, dt, log_alpha, share, _ = self._project(x)
        return {"step size": dt, "decay": log_alpha.exp(), "share of the present token": share, "output gate": silu(z)}

    def _project(self, x: Tensor) -> tuple[Tensor, ...]:
        """z (..., inner), x (..., heads, p), B and C before their rotation (..., heads, n), dt, log alpha and lambda (...,
        heads), and the angles by which B and C rotate (..., heads, angles)."""
        z, x, B, C, dt, A, share, omega = self.in_proj(x).split(self.sizes, dim=-1)
        B, C = (
            norm(t.unflatten(-1, (self.groups, -1))).repeat_interleave(self.heads // self.groups, dim=-2) + bias
            for norm, t, bias in zip(self.norms, (B, C), (self.B_bias, self.C_bias), strict=True)
        )
        dt = softplus(dt + self.dt_bias)
        A = softplus(A) if self.decay == "softplus" else A.clamp(min=0) + 1 / (1 - A.clamp(max=0))
        steps = dt[..., None] * (math.pi * torch.tanh(omega))[..., None, :]
        return z, x.unflatten(-1, (self.heads, -1)), B, C, dt, -A.clamp(min=self.decay_min) * dt, sigmoid(share), steps

    def _scan(
        self, x: Tensor, B: Tensor, C: Tensor, dt: Tensor, log_alpha: Tensor, share: Tensor, steps: Tensor
    ) -> Tensor:
        """The readings with D x: (batch, length, heads, p)."""
        B, C = turned_along(B, steps), turned_along(C, steps)
        gamma = share * dt
        weight = log_alpha.exp() * (_before(gamma) + (1 - share) * dt)  # of the token before, in h_t
        y = ssd(weight[..., None] * _before(x), log_alpha, _before(B), C)
        return y + (gamma * (B * C).sum(-1) + self.D)[..., None] * x

    def initial_state(self, batch: int) -> State:
        head_dim, like = self.out.in_features // self.heads, self.D
        return {
            "ssm": like.new_zeros(batch, self.heads, self.state, head_dim),
            "angle": like.new_zeros(batch, self.heads, self.sizes[-1]),
            "B": like.new_zeros(batch, self.heads, self.state),
            "x": like.new_zeros(batch, self.heads, head_dim),
        }

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:  # x (batch, width)
        z, x, B, C, dt, log_alpha, share, steps = self._project(x)
        angle = state["angle"] + steps
        B, C = turned(B, angle), turned(C, angle)
        alpha, gamma = log_alpha.exp()[..., None, None], (share * dt)[..., None, None]
        beta = ((1 - share) * dt)[..., None, None] * alpha
        h = alpha * state["ssm"] + beta * state["B"][..., None] * state["x"][..., None, :]
        h = h + gamma * B[..., None] * x[..., None, :]
        y = (C[..., None] * h).sum(-2) + self.D[:, None] * x
        return self.out(y.flatten(-2) * silu(z)), {"ssm": h, "angle": angle, "B": B, "x": x}

    def flops(self, length: int) -> int:
        scan = 5 * length * self.state * self.out.in_features  # the recurrence's: decay h, B x^T, their sum, and h^T C
        return map_flops(length, self) + scan + 2 * length * self.heads * self.state


def _before(t: Tensor) -> Tensor:
    """t (batch, length, ...) one token later, zeros at the first."""
    return F.pad(t.flatten(2), (0, 0, 1, 0))[:, :-1].unflatten(2, t.shape[2:])
