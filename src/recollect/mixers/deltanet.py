"""DeltaNet (Yang et al. 2024): a linear memory that, before it writes a value, removes what it holds for the key.

    S_t = (I - beta_t k_t k_t^T) S_{t-1} + beta_t k_t v_t^T        beta_t = beta_max sigmoid(W_beta x_t)

The matrix in front of S has the eigenvalue 1 - beta_t along k_t. With beta_max 2 it can be negative (Grazzi et al. 2025), so
that a write can flip the sign of what the memory holds: one layer can then count modulo 2.

Glossary: q, k, v = queries, keys, values; beta = how much is written; alpha = how much is kept (Gated DeltaNet);
S = the memory; h = heads; d = width / heads, the width of a head's keys.
"""

import torch
from torch import Tensor, nn

from recollect.mixers.base import Mixer, State, divides, map_flops
from recollect.ops.activations import sigmoid
from recollect.ops.delta_rule import delta_rule, delta_rule_flops, delta_rule_step
from recollect.ops.short_conv import ShortConv
from recollect.spec import SpecError


class DeltaNet(Mixer):
    """The delta rule on convolved q, k, v with silu; q and k have length 1, and each head's output is normalised.

    heads: how many heads the width is split into.
    kernel: length of the short convolutions on q, k and v.
    expand_v: width of a head's values over that of its keys; the memory grows by the same factor.
    beta_max: beta lies between 0 and this; above 1, up to 2, the memory's transition has negative eigenvalues.
    norm_eps: what is added to the mean square in the norm of the output: 1e-5 in flash-linear-attention (fla) and Zoology,
        1e-6 in transformers' Qwen3-Next. At the start the mean square is of that size, so it matters.

    Initial values: Zoology's (linear maps by the model's default, the convolutions as nn.Conv1d's) except `out`, which Zoology
    does not make smaller.
    """

    def __init__(
        self, width: int, *, heads: int = 2, kernel: int = 4, expand_v: int = 1, norm_eps: float = 1e-5,
        beta_max: float = 1.0,
    ):  # fmt: skip
        super().__init__()
        head_dim = divides("delta rule: heads", heads, width)
        if not 0 < beta_max <= 2:
            reason = "makes the memory grow or stay empty; choose above 0, up to 2"
            raise SpecError(f"delta rule: beta_max {beta_max} {reason}")
        self.heads, self.beta_max = heads, beta_max
        self.qkv = nn.Linear(width, (2 + expand_v) * width, bias=False)
        self.conv = ShortConv((2 + expand_v) * width, kernel, bias=False, activation="silu")
        self.beta = nn.Linear(width, heads, bias=False)
        self.norm = nn.RMSNorm(expand_v * head_dim, eps=norm_eps)
        self.out = nn.Linear(expand_v * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # (batch, length, width)
        return self._finish(self.mix(x), x)

    def mix(self, x: Tensor, values: Tensor | None = None) -> Tensor:  # (batch, length, h, expand_v d)
        q, k, v = self._split(self.conv(self.qkv(x)))
        log_alpha = self._log_alpha(x)
        q, k, v, beta = (t.transpose(1, 2) for t in (q, k, v if values is None else values, self._beta(x)))
        return delta_rule(q, k, v, beta, None if log_alpha is None else log_alpha.transpose(1, 2)).transpose(1, 2)

    def signals(self, x: Tensor) -> dict[str, Tensor]:
        log_alpha = self._log_alpha(x)
        decay = {} if log_alpha is None else {"decay": log_alpha.exp().flatten(2)}
        return {"write strength": self._beta(x).flatten(2), **decay}

    def _split(self, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries and keys, normalised, (..., h, d) and values (..., h, expand_v d)."""
        width, values = self.out.out_features, self.out.in_features
        q, k, v = (t.unflatten(-1, (self.heads, -1)) for t in qkv.split((width, width, values), dim=-1))
        return unit(q) * q.shape[-1] ** -0.5, unit(k), v

    def _beta(self, x: Tensor) -> Tensor:
        """How much is written, (..., h), between 0 and beta_max."""
        beta = sigmoid(self.beta(x))
        return beta if self.beta_max == 1 else self.beta_max * beta

    def _log_alpha(self, x: Tensor) -> Tensor | None:
        """The log of alpha (..., h); None here: only overwritten values are forgotten."""
        return None

    def _finish(self, y: Tensor, x: Tensor) -> Tensor:
        """From the heads' readings (..., h, expand_v d) to the output (..., width)."""
        return self.out(self.norm(y).flatten(-2))

    def initial_state(self, batch: int) -> State:
        memory = self.out.weight.new_zeros(batch, self.heads, *self._dims)
        return {"S": memory, "conv": self.conv.initial_state(batch)}

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:  # x (batch, width)
        convolved, conv = self.conv.step(self.qkv(x), state["conv"])
        y, memory = self._step(*self._split(convolved), x, state["S"])
        return self._finish(y, x), {"S": memory, "conv": conv}

    def _step(self, q: Tensor, k: Tensor, v: Tensor, x: Tensor, S: Tensor) -> tuple[Tensor, Tensor]:
        """The rule for one token, whose q, k and v are (batch, h, d): the reading and the next memory."""
        return delta_rule_step(q, k, v, self._beta(x), self._log_alpha(x), S)

    @property
    def _dims(self) -> tuple[int, int]:
        """Of a head, the width of its keys and of its values."""
        return self.out.out_features // self.heads, self.out.in_features // self.heads

    def flops(self, length: int) -> int:
        return map_flops(length, self) + self.heads * delta_rule_flops(length, *self._dims)


def unit(x: Tensor) -> Tensor:
    """x normalised to length 1, smoothly where it is zero."""
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)
