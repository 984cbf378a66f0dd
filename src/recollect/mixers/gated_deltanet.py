"""Gated DeltaNet (Yang et al. 2025): DeltaNet whose memory also fades, and whose output is gated.

    alpha_t = exp(-A softplus(W_a x_t + dt_bias))        y = W_out (norm(read) * silu(W_z x))

Glossary as in deltanet.py; A = a head's rate of decay, dt_bias = the bias of its time step, both as Mamba2 has them;
z = the output gate.
"""

import torch
from torch import Tensor, nn

from recollect.mixers.deltanet import DeltaNet
from recollect.mixers.mamba import step_size_bias
from recollect.ops.activations import silu, softplus


class GatedDeltaNet(DeltaNet):
    """DeltaNet with a decay of the memory, one per head and token, and an output gate.

    heads: how many heads the width is split into.
    kernel: length of the short convolutions on q, k and v.
    expand_v: width of a head's values over that of its keys; the memory grows by the same factor. 2 in
        flash-linear-attention (fla) and Zoology.
    beta_max: beta lies between 0 and this; above 1, up to 2, the memory's transition has negative eigenvalues.
    norm_eps: what is added to the mean square in the norm of the output: 1e-5 in fla and Zoology, 1e-6 in transformers'
        Qwen3-Next. At the start the mean square is of that size, so it matters.
    output_gate: whether the output is multiplied by silu(W_z x). Zoology's collection of models leaves it out.

    Initial values: as DeltaNet's; A is uniform between 0.01 and 16 (between 0 and 16 in fla and Zoology), and dt_bias is
    theirs, which is Mamba2's.
    """

    def __init__(
        self, width: int, *, heads: int = 2, kernel: int = 4, expand_v: int = 1, norm_eps: float = 1e-5,
        beta_max: float = 1.0, output_gate: bool = True,
    ):  # fmt: skip
        super().__init__(width, heads=heads, kernel=kernel, expand_v=expand_v, norm_eps=norm_eps, beta_max=beta_max)
        self.a = nn.Linear(width, heads, bias=False)
        self.z = nn.Linear(width, expand_v * width, bias=False) if output_gate else None
        self.A_log = nn.Parameter(torch.empty(heads).uniform_(0.01, 16).log())
        self.dt_bias = nn.Parameter(step_size_bias(torch.empty(heads), 1e-3, 0.1))

    def _log_alpha(self, x: Tensor) -> Tensor | None:
        return None if self.a is None else -self.A_log.exp() * softplus(self.a(x) + self.dt_bias)

    def _finish(self, y: Tensor, x: Tensor) -> Tensor:
        y = self.norm(y).flatten(-2)
        return self.out(y if self.z is None else y * silu(self.z(x)))
