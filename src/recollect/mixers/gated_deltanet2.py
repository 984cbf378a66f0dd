"""Gated DeltaNet-2 (2026): KDA whose one number beta becomes two gates per channel, one for erasing and one for writing.

    S_t = (I - k_t (b_t * k_t)^T) diag(alpha_t) S_{t-1} + k_t (w_t * v_t)^T
    b_t = beta_max sigmoid(W_b x_t)        w_t = sigmoid(W_w x_t)

Glossary as in kda.py; b = how much of each key channel is erased; w = how much of each value channel is written.
"""

from torch import Tensor, nn

from recollect.mixers.kda import KDA
from recollect.ops.activations import sigmoid
from recollect.ops.channel_delta_rule import channel_delta_rule_step, gated_delta_rule_2


class GatedDeltaNet2(KDA):
    """Gated DeltaNet-2: KDA with an erase gate per key channel and a write gate per value channel.

    The values of `mix` are those that are written, w * v.

    heads: how many heads the width is split into.
    kernel: length of the short convolutions on q, k and v.
    expand_v: width of a head's values over that of its keys; the memory grows by the same factor.
    beta_max: the erase gate lies between 0 and this; above 1, up to 2, the memory's transition has negative eigenvalues.
    norm_eps: what is added to the mean square in the norm of the output; 1e-5 in flash-linear-attention (fla).

    Initial values: as KDA's, which are fla's; the output gate has a bias, which starts at zero.
    """

    gate_bias = True

    def __init__(
        self, width: int, *, heads: int = 2, kernel: int = 4, expand_v: int = 1, norm_eps: float = 1e-5,
        beta_max: float = 1.0,
    ):  # fmt: skip
        super().__init__(width, heads=heads, kernel=kernel, expand_v=expand_v, norm_eps=norm_eps, beta_max=beta_max)
        self.beta = nn.Linear(width, width, bias=False)  # the erase gate's
        self.write = nn.Linear(width, expand_v * width, bias=False)

    def mix(self, x: Tensor, values: Tensor | None = None) -> Tensor:  # (batch, length, h, expand_v d)
        tensors = (*self._split(self.conv(self.qkv(x))), *self._gates(x), self._log_alpha(x))
        q, k, v, erase, write, log_alpha = (t.transpose(1, 2) for t in tensors)
        given = (v, erase, write) if values is None else (values.transpose(1, 2), erase, None)
        return gated_delta_rule_2(q, k, *given, log_alpha).transpose(1, 2)

    def signals(self, x: Tensor) -> dict[str, Tensor]:
        decay = self._log_alpha(x).exp().flatten(2)
        return {"erase gate": self._beta(x), "write gate": sigmoid(self.write(x)), "decay": decay}

    def _gates(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """How much is erased (..., h, d) and written (..., h, expand_v d)."""
        erase, write = (t.unflatten(-1, (self.heads, -1)) for t in (self._beta(x), sigmoid(self.write(x))))
        return erase, write

    def _step(self, q: Tensor, k: Tensor, v: Tensor, x: Tensor, S: Tensor) -> tuple[Tensor, Tensor]:
        erase, write = self._gates(x)
        return channel_delta_rule_step(q, k, write * v, erase * k, self._log_alpha(x), S)
