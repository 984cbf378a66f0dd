"""The parts of a model's layers: norms, the MLP, and a mixer with what follows it."""

from typing import TYPE_CHECKING, Any

import torch.nn.functional as F
from torch import Tensor, nn

from recollect import rng
from recollect.mixers.base import State
from recollect.models.spec import BlockSpec, ModelSpec
from recollect.ops.activations import silu
from recollect.ops.fused import takes_norm
from recollect.ops.mlp import mlp
from recollect.ops.norms import Norm, absorbed


class MLP(nn.Module):
    """A two-layer network, token by token: GELU, or SwiGLU with two thirds of the hidden width (the same parameters)."""

    def __init__(self, width: int, hidden: int, gated: bool):
        super().__init__()
        self.gated = gated
        hidden = hidden * 2 // 3 if gated else hidden
        self.into = nn.Linear(width, hidden * (2 if gated else 1))
        self.out = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        return self._from(x, self.into.weight, self.into.bias)

    def after_norm(self, norm: Norm, x: Tensor) -> Tensor:
        """self(norm(x)), for a GPU."""
        return self._from(*absorbed(norm, x, self.into.weight, self.into.bias))

    def _from(self, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        """The network with these as its first linear map."""
        if self.gated:
            x, gate = F.linear(x, w, b).chunk(2, dim=-1)
            return self.out(silu(x) * gate)
        return mlp(x, w, b, self.out.weight, self.out.bias)


class Layer(nn.Module):
    """A mixer and what follows it: gives the branch that is added to the residual stream."""

    def __init__(self, block: BlockSpec, spec: ModelSpec, context: dict[str, Any]):
        super().__init__()
        self.parallel, self.drop, self.kind = block.parallel, spec.dropout_residual, block.mixer.kind
        self.norm_mixer = norm_of(spec)
        self.mixer: Any = block.mixer.build(spec.width, **context)
        self.norm_mlp = norm_of(spec) if block.mlp != "none" else None
        if block.mlp in ("gelu", "swiglu"):
            self.mlp = MLP(spec.width, round(spec.width * spec.mlp_ratio), gated=block.mlp == "swiglu")
        else:
            self.mlp = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self._finish(x, _after(self.norm_mixer, x, self.mixer))

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        mixed, state = self.mixer.step(self.norm_mixer(x), state)
        return self._finish(x, mixed), state

    def _finish(self, x: Tensor, mixed: Tensor) -> Tensor:
        mixed = rng.dropout(mixed, self.drop)
        if self.norm_mlp is None:
            return mixed
        seen = x if self.parallel else x + mixed
        return mixed + rng.dropout(_after(self.norm_mlp, seen, self.mlp), self.drop)


if TYPE_CHECKING:
    Layers = list[Layer]
else:
    Layers = nn.ModuleList


def _after(norm: Norm, x: Tensor, part: Any) -> Tensor:
    """part(norm(x)), in the part's own way where it has one and that is faster."""
    return part.after_norm(norm, x) if takes_norm(part, x) else part(norm(x))


def norm_of(spec: ModelSpec) -> Norm:
    """The norm of a model's kind and width."""
    return nn.LayerNorm(spec.width) if spec.norm == "layer" else nn.RMSNorm(spec.width, eps=1e-5)
