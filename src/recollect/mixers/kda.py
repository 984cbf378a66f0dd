"""Kimi Delta Attention (KDA, Kimi Team 2025): Gated DeltaNet with a decay per key channel, and a sigmoid as output gate.

    S_t = (I - beta_t k_t k_t^T) diag(alpha_t) S_{t-1} + beta_t k_t v_t^T
    alpha_t = exp(-A softplus(W_2 W_1 x_t + dt_bias))        y = W_out (norm(read) * sigmoid(W_4 W_3 x))

Glossary as in deltanet.py; alpha = how much of each row of the memory is kept; A = a head's rate of decay, dt_bias = the bias
of a channel's time step; W_1 .. W_4 = low-rank maps, the rank being the width of a head's values.
"""

import torch
from torch import Tensor, nn

from recollect.mixers.base import map_flops
from recollect.mixers.deltanet import DeltaNet
from recollect.mixers.mamba import step_size_bias
from recollect.ops.activations import sigmoid, softplus
from recollect.ops.channel_delta_rule import channel_delta_rule_flops, channel_delta_rule_step, kda


class KDA(DeltaNet):
    """Kimi Delta Attention.

    heads: how many heads the width is split into.
    kernel: length of the short convolutions on q, k and v.
    expand_v: width of a head's values over that of its keys; the memory grows by the same factor.
    beta_max: beta lies between 0 and this; above 1, up to 2, the memory's transition has negative eigenvalues.
    norm_eps: what is added to the mean square in the norm of the output; 1e-5 in flash-linear-attention (fla) and in Kimi
        Linear.

    Initial values: A and dt_bias are fla's and Kimi Linear's; linear maps are by the model's default, convolutions as
    nn.Conv1d's. The output gate has no bias, as in Kimi Linear's released model; fla's has one.
    """

    gate_bias = False

    def __init__(
        self, width: int, *, heads: int = 2, kernel: int = 4, expand_v: int = 1, norm_eps: float = 1e-5,
        beta_max: float = 1.0,
    ):  # fmt: skip
        super().__init__(width, heads=heads, kernel=kernel, expand_v=expand_v, norm_eps=norm_eps, beta_max=beta_max)
        rank = expand_v * width // heads
        self.decay = nn.Sequential(nn.Linear(width, rank, bias=False), nn.Linear(rank, width, bias=False))
        self.z = nn.Sequential(
            nn.Linear(width, rank, bias=False), nn.Linear(rank, expand_v * width, bias=self.gate_bias)
        )
        self.A_log = nn.Parameter(torch.empty(heads).uniform_(1, 16).log())
        self.dt_bias = nn.Parameter(step_size_bias(torch.empty(width), 1e-3, 0.1))

    def mix(self, x: Tensor, values: Tensor | None = None) -> Tensor:  # (batch, length, h, expand_v d)
        q, k, v = self._split(self.conv(self.qkv(x)))
        inputs = (q, k, v if values is None else values, self._beta(x), self._log_alpha(x))
        return kda(*(t.transpose(1, 2) for t in inputs)).transpose(1, 2)

    def _log_alpha(self, x: Tensor) -> Tensor:
        """The log of alpha (..., h, d)."""
        dt = softplus(self.decay(x) + self.dt_bias)
        return -self.A_log.exp()[:, None] * dt.unflatten(-1, (self.heads, -1))

    def _finish(self, y: Tensor, x: Tensor) -> Tensor:
        return self.out(self.norm(y).flatten(-2) * sigmoid(self.z(x)))

    def _step(self, q: Tensor, k: Tensor, v: Tensor, x: Tensor, S: Tensor) -> tuple[Tensor, Tensor]:
        beta = self._beta(x)[..., None]
        return channel_delta_rule_step(q, k, beta * v, beta * k, self._log_alpha(x), S)

    def flops(self, length: int) -> int:
        return map_flops(length, self) + self.heads * channel_delta_rule_flops(length, *self._dims)
