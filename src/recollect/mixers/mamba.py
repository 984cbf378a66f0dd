"""Mamba (Gu & Dao 2023), and its S6 core as the mixer of a Transformer layer.

    u = silu(conv(W_u x))        z = W_z x        y = W_out (S6(u) * silu(z))
    S6: dt = softplus(W_dt W_r u + b_dt), B = W_B u, C = W_C u, then the selective scan (ops/mamba.py)

Glossary: dt = step size, from a projection of rank r; A, B, C, D = the state-space model's; n = state; z = gate;
inner = expand x width, the channels of the scan.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from recollect.mixers.base import Init, Mixer, State, map_flops
from recollect.ops.activations import silu, softplus
from recollect.ops.mamba import fused_mamba, input_parts, step_and_state
from recollect.ops.selective_scan import selective_scan, selective_step
from recollect.ops.short_conv import ShortConv
from recollect.spec import SpecError

StepInit = Literal["published", "zero"]


class Mamba(Mixer):
    """Mamba's own block: expansion, short convolution, selective scan and gate. It is used without an MLP.

    state: size n of the state of each channel.
    kernel: length of the short convolution.
    expand: how many times the width the scan's channels are.
    dt_rank: rank r of the projection that gives dt; 0 takes a 16th of the width, rounded up.
    dt_min, dt_max: step sizes at the start, log-uniform between these.
    conv: whether there is a convolution (without it the silu remains).
    gate: whether the output is gated.
    mimetic: start close to linear attention (Trockman et al. 2024): almost no decay (A = -exp(-8), dt = 1 whatever the token)
        and W_C = W_B. The convolution starts as usual.
    init: how W_u, W_z, W_r, W_B, W_C and W_out start: normal, by the model's default, N(0, 0.02) and W_out smaller; or pytorch,
        nn.Linear's default and W_out divided by sqrt(layers), as in published Mamba and in Zoology's block for Mamba.
    dt_init: how the step size starts: published, W_dt uniform in +- r^(-1/2) and b_dt as dt_min and dt_max say; or zero,
        b_dt = 0, so that dt is near 0.7, and W_dt as other linear maps. Zoology's code does the latter, by zeroing every
        bias, where Mamba is in its block for other mixers, with an MLP after it.

    Initial values: A, D, dt and the convolution are published Mamba's; linear maps are by the model's default unless `init` says
    otherwise.
    """

    def __init__(
        self, width: int, *, state: int = 16, kernel: int = 4, expand: int = 2, dt_rank: int = 0, dt_min: float = 1e-3,
        dt_max: float = 0.1, conv: bool = True, gate: bool = True, mimetic: bool = False, init: Init = "normal",
        dt_init: StepInit = "published", layers: int = 1,
    ):  # fmt: skip
        super().__init__()
        if mimetic and dt_init == "zero":
            raise SpecError("mamba: mimetic sets the step sizes itself; it cannot have dt_init 'zero' too")
        self.init, self.layers = init, layers
        inner = expand * width
        self.in_proj = nn.Linear(width, inner * (1 + gate), bias=False)  # u, then z
        self.conv = ShortConv(inner, kernel, activation="silu") if conv else None
        self.ssm = SelectiveSSM(inner, state, dt_rank or math.ceil(width / 16), dt_min, dt_max, mimetic, init, dt_init)
        self.out = nn.Linear(inner, width, bias=False)

    @torch.no_grad()
    def initialise(self) -> None:
        """Draw the linear maps again by PyTorch's default, where `init` says so."""
        if self.init == "pytorch":
            self.in_proj.reset_parameters()
            self.out.reset_parameters()
            self.out.weight /= math.sqrt(self.layers)

    def forward(self, x: Tensor) -> Tensor:  # (batch, length, width)
        y = fused_mamba(x, self.in_proj, self.conv, self.ssm, self.ssm.weights())  # (batch, length, inner)
        if y is None:
            u, *z = self._project(x)
            y = self._gated(self.ssm(u), z)
        return self.out(y)

    def mix(self, x: Tensor, values: Tensor | None = None) -> Tensor:  # (batch, length, inner), the values too
        return self.ssm(self._project(x)[0], values)

    def signals(self, x: Tensor) -> dict[str, Tensor]:
        u, *z = self._project(x)
        return {"step size": self.ssm.step_size(u)} | ({"output gate": silu(z[0])} if z else {})

    def _project(self, x: Tensor) -> list[Tensor]:
        """u after its convolution and, where there is a gate, z: (batch, length, inner) each."""
        u, *z = input_parts(x, self.in_proj, self.out.in_features)
        return [silu(u) if self.conv is None else self.conv(u), *z]

    def _gated(self, y: Tensor, z: list[Tensor]) -> Tensor:
        return y * silu(z[0]) if z else y

    def initial_state(self, batch: int) -> State:
        state = {"ssm": self.ssm.initial_state(batch)}
        return state if self.conv is None else state | {"conv": self.conv.initial_state(batch)}

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:  # x (batch, width)
        u, *z = self.in_proj(x).split(self.out.in_features, dim=-1)  # (batch, inner)
        new = {}
        if self.conv is None:
            u = silu(u)
        else:
            u, new["conv"] = self.conv.step(u, state["conv"])
        y, new["ssm"] = self.ssm.step(u, state["ssm"])
        return self.out(self._gated(y, z)), new

    def flops(self, length: int) -> int:
        return map_flops(length, self.in_proj, self.conv, self.out) + self.ssm.flops(length)


class S6(Mixer):
    """The selective scan alone: Okpekpe & Orvieto (figure 8, "S6 + MLP") put it in place of attention in a Transformer layer.

    They give no details. Here: the scan at the model's width (no expansion, convolution, gate or activation) and an output
    projection; dt, B and C come from the layer's input as in Mamba.

    state: size n of the state of each channel.
    dt_rank: rank r of the projection that gives dt; 0 takes a 16th of the width, rounded up.
    dt_min, dt_max: step sizes at the start, log-uniform between these.

    Initial values: A, D and dt are published Mamba's; linear maps are by the model's default.
    """

    def __init__(
        self, width: int, *, state: int = 16, dt_rank: int = 0, dt_min: float = 1e-3, dt_max: float = 0.1
    ):  # fmt: skip
        super().__init__()
        self.ssm = SelectiveSSM(width, state, dt_rank or math.ceil(width / 16), dt_min, dt_max)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # (batch, length, width)
        return self.out(self.mix(x))

    def mix(self, x: Tensor, values: Tensor | None = None) -> Tensor:  # (batch, length, width), the values too
        return self.ssm(x, values)

    def signals(self, x: Tensor) -> dict[str, Tensor]:
        return {"step size": self.ssm.step_size(x)}

    def initial_state(self, batch: int) -> State:
        return {"ssm": self.ssm.initial_state(batch)}

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:  # x (batch, width)
        y, h = self.ssm.step(x, state["ssm"])
        return self.out(y), {"ssm": h}

    def flops(self, length: int) -> int:
        return map_flops(length, self.out) + self.ssm.flops(length)


class SelectiveSSM(nn.Module):
    """S6 with its weights: dt, B and C from the input, then the scan."""

    def __init__(
        self, channels: int, state: int, dt_rank: int, dt_min: float, dt_max: float, mimetic: bool = False,
        init: Init = "normal", dt_init: StepInit = "published",
    ):  # fmt: skip
        super().__init__()
        self.dt_min, self.dt_max, self.mimetic, self.init, self.dt_init = dt_min, dt_max, mimetic, init, dt_init
        self.x_proj = nn.Linear(channels, dt_rank + 2 * state, bias=False)
        self.dt_proj = nn.Linear(dt_rank, channels)
        self.A_log = nn.Parameter(torch.empty(channels, state))
        self.D = nn.Parameter(torch.empty(channels))
        self.initialise()

    @torch.no_grad()
    def initialise(self) -> None:
        rank, state = self.dt_proj.in_features, self.A_log.shape[1]
        self.D.fill_(1)
        if self.init == "pytorch":
            self.x_proj.reset_parameters()
            self.dt_proj.reset_parameters()
        if self.mimetic:
            self.A_log.fill_(-8)
            self.dt_proj.weight.zero_()
            self.dt_proj.bias.copy_(step_size_bias(self.D, 1, 1))
            self.x_proj.weight[rank + state :] = self.x_proj.weight[rank : rank + state]
        else:
            self.A_log.copy_(torch.arange(1, state + 1).log())
            if self.dt_init == "zero":
                self.dt_proj.bias.zero_()
            else:
                self.dt_proj.weight.uniform_(-(rank**-0.5), rank**-0.5)
                self.dt_proj.bias.copy_(step_size_bias(self.D, self.dt_min, self.dt_max))

    def forward(self, x: Tensor, values: Tensor | None = None) -> Tensor:  # (batch, length, channels)
        """The scan of x, or of other values with the dt, B and C of x."""
        dt, B, C = self._project(x)
        return selective_scan(x if values is None else values, dt, self.dt_proj.bias, -self.A_log.exp(), B, C, self.D)

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """dt before its bias and softplus, B and C."""
        return step_and_state(x, self.x_proj.weight, self.dt_proj.weight)

    def step_size(self, x: Tensor) -> Tensor:
        """How far the state moves at each token: (batch, length, channels)."""
        return softplus(self._project(x)[0] + self.dt_proj.bias)

    def weights(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """w_x, w_dt, b_dt, A_log and D (ops/mamba.py)."""
        return self.x_proj.weight, self.dt_proj.weight, self.dt_proj.bias, self.A_log, self.D

    def initial_state(self, batch: int) -> Tensor:
        """(batch, channels, n), zeros."""
        return self.A_log.new_zeros(batch, *self.A_log.shape)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:  # x (batch, channels)
        dt, B, C = self._project(x)
        return selective_step(x, dt, self.dt_proj.bias, -self.A_log.exp(), B, C, self.D, h)

    def flops(self, length: int) -> int:
        """Operations for one sequence; the scan has six per state element: dt A, decay h, u B, their sum, and C . h."""
        return map_flops(length, self.x_proj, self.dt_proj) + 6 * length * self.A_log.numel()


def step_size_bias(like: Tensor, dt_min: float, dt_max: float) -> Tensor:
    """Biases shaped as `like` whose softplus is log-uniform in [dt_min, dt_max]: Mamba's start for dt."""
    if not 0 < dt_min <= dt_max:
        raise SpecError(f"mamba: dt_min {dt_min} and dt_max {dt_max} must satisfy 0 < dt_min <= dt_max")
    dt = torch.empty_like(like).uniform_(math.log(dt_min), math.log(dt_max)).exp()
    return dt + torch.log(-torch.expm1(-dt))  # the inverse of softplus
