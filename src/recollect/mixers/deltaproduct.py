"""DeltaProduct (Siems et al. 2025): a delta rule that takes several steps per token.

    S_{t,i} = (I - beta_ti k_ti k_ti^T) S_{t,i-1} + beta_ti k_ti v_ti^T    for i = 1 .. n,    S_{t,0} = alpha_t S_{t-1,n}
    y_t = S_{t,n}^T q_t

A token's transition is a product of n generalised Householder matrices. With beta up to 2, two of them make any rotation of a
plane, and more of them any permutation of more directions: one layer can then track the state of a group. It is computed as a
delta rule on rows n times as long.

Glossary as in deltanet.py; n = steps; z = the output gate.
"""

import torch
from torch import Tensor, nn

from recollect.mixers.base import Mixer, divides, map_flops
from recollect.mixers.deltanet import unit
from recollect.mixers.gated_deltanet import GatedDeltaNet
from recollect.mixers.mamba import step_size_bias
from recollect.ops.delta_rule import delta_rule, delta_rule_flops, delta_rule_step
from recollect.ops.short_conv import ShortConv
from recollect.spec import SpecError


class DeltaProduct(GatedDeltaNet):
    """DeltaNet with n steps per token: each has its own keys, values and beta.

    `mix` takes and returns n x heads parts, step by step: a head's reading is the sum over its n parts, because the values of
    each step are mixed by their own matrix.

    steps: n, how many steps of the delta rule a token takes.
    heads: how many heads the width is split into.
    kernel: length of the short convolutions on q, k and v.
    expand_v: width of a head's values over that of its keys; the memory grows by the same factor.
    beta_max: beta lies between 0 and this; above 1, up to 2, a step's transition has a negative eigenvalue.
    forget: whether the memory fades before a token's first step, by Gated DeltaNet's alpha.
    output_gate: whether the output is multiplied by silu(W_z x), as in Gated DeltaNet.
    norm_eps: what is added to the mean square in the norm of the output; 1e-5 in flash-linear-attention (fla).

    With one step it is DeltaNet, or with both gates Gated DeltaNet.
    Initial values: as DeltaNet's; those of alpha as Gated DeltaNet's.
    """

    def __init__(
        self, width: int, *, steps: int = 2, heads: int = 2, kernel: int = 4, expand_v: int = 1, beta_max: float = 2.0,
        forget: bool = False, output_gate: bool = False, norm_eps: float = 1e-5,
    ):  # fmt: skip
        Mixer.__init__(self)  # the parameters of a Gated DeltaNet have other sizes and another order
        head_dim = divides("deltaproduct: heads", heads, width)
        if not 0 < beta_max <= 2:
            raise SpecError(f"deltaproduct: beta_max {beta_max} is out of range; choose above 0, up to 2")
        self.steps, self.heads, self.beta_max = steps, heads, beta_max
        self.sizes = [width, steps * width, steps * expand_v * width]  # of q, k and v
        self.qkv = nn.Linear(width, sum(self.sizes), bias=False)
        self.conv = ShortConv(sum(self.sizes), kernel, bias=False, activation="silu")
        self.beta = nn.Linear(width, steps * heads, bias=False)
        self.a = nn.Linear(width, heads, bias=False) if forget else None
        if forget:
            self.A_log = nn.Parameter(torch.empty(heads).uniform_(0.01, 16).log())
            self.dt_bias = nn.Parameter(step_size_bias(torch.empty(heads), 1e-3, 0.1))
        self.z = nn.Linear(width, expand_v * width, bias=False) if output_gate else None
        self.norm = nn.RMSNorm(expand_v * head_dim, eps=norm_eps)
        self.out = nn.Linear(expand_v * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # (batch, length, width)
        return self._finish(self._scan(*self._split(self.conv(self.qkv(x))), x), x)

    def mix(self, x: Tensor, values: Tensor | None = None) -> Tensor:  # (batch, length, n h, expand_v d)
        q, k, v = self._split(self.conv(self.qkv(x)))
        v = v if values is None else values.unflatten(-2, (self.steps, -1))  # (batch, length, n, h, dim)
        parts = []
        for i in range(self.steps):
            alone = torch.zeros_like(v)  # what step i alone writes; the others erase only
            alone[..., i, :, :] += v[..., i, :, :]
            parts.append(self._scan(q, k, alone, x))
        return torch.cat(parts, dim=-2)

    def _split(self, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (..., h, d), keys (..., n, h, d), both normalised, and values (..., n, h, expand_v d)."""
        q, k, v = qkv.split(self.sizes, dim=-1)
        k, v = (t.unflatten(-1, (self.steps, self.heads, -1)) for t in (k, v))
        q = q.unflatten(-1, (self.heads, -1))
        return unit(q) * q.shape[-1] ** -0.5, unit(k), v

    def _beta(self, x: Tensor) -> Tensor:
        """How much each step writes, (..., n, h)."""
        return super()._beta(x).unflatten(-1, (self.steps, -1))

    def _scan(self, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        """The readings (batch, length, h, dim): the first of each token's n steps forgets, and the last is read."""
        beta, log_alpha = self._beta(x), self._log_alpha(x)
        nothing = [torch.zeros_like(q)] * (self.steps - 1)
        q = torch.stack([*nothing, q], dim=2)
        if log_alpha is not None:
            log_alpha = torch.stack([log_alpha, *[torch.zeros_like(log_alpha)] * (self.steps - 1)], dim=2)
        rows = [None if t is None else t.flatten(1, 2).transpose(1, 2) for t in (q, k, v, beta, log_alpha)]
        return delta_rule(*rows)[:, :, self.steps - 1 :: self.steps].transpose(1, 2)  # pyright: ignore[reportArgumentType]

    def _step(self, q: Tensor, k: Tensor, v: Tensor, x: Tensor, S: Tensor) -> tuple[Tensor, Tensor]:
        beta, log_alpha, y = self._beta(x), self._log_alpha(x), q
        for i in range(self.steps):
            y, S = delta_rule_step(q, k[:, i], v[:, i], beta[:, i], None if i else log_alpha, S)
        return y, S

    def flops(self, length: int) -> int:
        return map_flops(length, self) + self.heads * delta_rule_flops(self.steps * length, *self._dims)
