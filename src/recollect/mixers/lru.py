"""The Linear Recurrent Unit (LRU, Orvieto et al. 2023): a diagonal recurrence with complex coefficients that stay the same.

    h_t = lambda * h_{t-1} + gamma * (B u_t)        y_t = Re(C h_t) + D * u_t
    lambda = exp(-exp(nu) + i exp(theta))           gamma = sqrt(1 - |lambda|^2) at the start

Glossary: u = the input; h = the state, n complex numbers; lambda = its decay and rotation; gamma = a factor that keeps its size
near that of the input; B, C, D as in state-space models.
The recurrence turns real parts into imaginary ones, so no channel has one mixing matrix: there is no `mix`.
"""

import math

import torch
from torch import Tensor, nn

from recollect.mixers.base import Mixer, State, map_flops
from recollect.ops.diagonal_scan import diagonal_scan, diagonal_scan_flops, diagonal_scan_step
from recollect.spec import SpecError


class LRU(Mixer):
    """The LRU's recurrence with its linear maps. What follows it in the paper, an activation and a gate, is left to the MLP.

    state: n, how many complex numbers the state has; 0 takes as many as the width.
    r_min, r_max: |lambda| at the start: uniform on the ring between these.
    max_phase: the angle of lambda at the start is uniform between 0 and this.

    Initial values: the paper's: B of variance 1 / (2 width), C of 1 / n, real and imaginary parts alike, D normal; the output
    map is made smaller by sqrt(2 x layers), as in the model's default.
    """

    def __init__(
        self, width: int, *, layers: int = 1, state: int = 0, r_min: float = 0.0, r_max: float = 1.0,
        max_phase: float = 2 * math.pi,
    ):  # fmt: skip
        super().__init__()
        state = state or width
        if not 0 <= r_min < r_max <= 1:
            raise SpecError(f"lru: r_min {r_min} and r_max {r_max} must satisfy 0 <= r_min < r_max <= 1")
        if not 0 < max_phase <= 2 * math.pi + 1e-9:
            raise SpecError(f"lru: max_phase {max_phase} is not an angle; choose above 0, up to 2 pi")
        self.layers, self.r_min, self.r_max, self.max_phase = layers, r_min, r_max, max_phase
        self.nu_log = nn.Parameter(torch.empty(state))
        self.theta_log = nn.Parameter(torch.empty(state))
        self.gamma_log = nn.Parameter(torch.empty(state))
        self.B = nn.Linear(width, 2 * state, bias=False)  # to a real and an imaginary part of each number
        self.out = nn.Linear(2 * state, width, bias=False)  # C, its imaginary part negated
        self.D = nn.Parameter(torch.empty(width))
        self.initialise()

    @torch.no_grad()
    def initialise(self) -> None:
        state, width = len(self.nu_log), len(self.D)
        squared = torch.rand_like(self.nu_log) * (self.r_max**2 - self.r_min**2) + self.r_min**2
        decay = -0.5 * squared.clamp(1e-12, 1 - 1e-6).log()  # -log |lambda|
        self.nu_log.copy_(decay.log())
        self.theta_log.copy_((self.max_phase * torch.rand_like(self.nu_log).clamp(min=1e-6)).log())
        self.gamma_log.copy_(0.5 * torch.log(-torch.expm1(-2 * decay)))
        self.B.weight.normal_(std=(2 * width) ** -0.5)
        self.out.weight.normal_(std=state**-0.5 / math.sqrt(2 * self.layers))
        self.D.normal_()

    def forward(self, x: Tensor) -> Tensor:  # (batch, length, width)
        h = diagonal_scan(self._written(x), self.nu_log.exp(), self.theta_log.exp())
        return self._read(h, x)

    def _written(self, x: Tensor) -> Tensor:
        """gamma * (B u): (..., n, 2)."""
        return self.gamma_log.exp()[:, None] * self.B(x).unflatten(-1, (-1, 2))

    def _read(self, h: Tensor, x: Tensor) -> Tensor:
        return self.out(h.flatten(-2)) + self.D * x

    def initial_state(self, batch: int) -> State:
        return {"h": self.nu_log.new_zeros(batch, len(self.nu_log), 2)}

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:  # x (batch, width)
        h, _ = diagonal_scan_step(self._written(x), self.nu_log.exp(), self.theta_log.exp(), state["h"])
        return self._read(h, x), {"h": h}

    def flops(self, length: int) -> int:
        return map_flops(length, self) + diagonal_scan_flops(length, len(self.nu_log))
