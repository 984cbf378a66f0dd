"""The parts of a model's layers: norms, the MLP, and a mixer with what follows it."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recollect import rng
from recollect.mixers.base import State, map_flops
from recollect.models.spec import BlockSpec, ModelSpec
from recollect.ops.activations import gelu, silu
from recollect.ops.fused import takes_norm
from recollect.ops.mlp import mlp
from recollect.ops.norms import Norm, absorbed
from recollect.ops.short_conv import Canon
from recollect.spec import SpecError


class MLP(nn.Module):
    """A two-layer network, applied to each token: GELU, or SwiGLU with two thirds of the hidden width (the same parameters).

    canon: whether there is a Canon layer before the activation.
    """

    def __init__(self, width: int, hidden: int, gated: bool, canon: bool = False):
        super().__init__()
        self.gated = gated
        hidden = hidden * 2 // 3 if gated else hidden
        self.into = nn.Linear(width, hidden * (2 if gated else 1))
        self.out = nn.Linear(hidden, width)
        self.canon = Canon(self.into.out_features) if canon else None

    def forward(self, x: Tensor) -> Tensor:
        if self.canon is not None:
            return self._finish(self.canon(self.into(x)))
        return self._from(x, self.into.weight, self.into.bias)

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """The network with a Canon layer for one token: x (batch, width)."""
        assert self.canon is not None, "without a Canon layer the network needs no state"
        hidden, state = self.canon.step(self.into(x), state)
        return self._finish(hidden), state

    def _finish(self, hidden: Tensor) -> Tensor:
        """The activation and the second linear map."""
        if not self.gated:
            return self.out(gelu(hidden))
        x, gate = hidden.chunk(2, dim=-1)
        return self.out(silu(x) * gate)

    def after_norm(self, norm: Norm, x: Tensor) -> Tensor:
        """self(norm(x)), for a GPU."""
        if self.canon is not None:
            return self(norm(x))
        return self._from(*absorbed(norm, x, self.into.weight, self.into.bias))

    def _from(self, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        """The network with these as its first linear map."""
        if self.gated:
            return self._finish(F.linear(x, w, b))
        return mlp(x, w, b, self.out.weight, self.out.bias)


class Decoder(nn.Module):
    """MAD's decoder (Poli et al. 2024), a non-expanding network for answers that are all read at one position: x (batch,
    answers, width), to which a code of the answer's number is added."""

    def __init__(self, spec: ModelSpec):
        super().__init__()
        self.norms = nn.ModuleList(norm_of(spec) for _ in range(2))
        self.linears = nn.ModuleList(nn.Linear(spec.width, spec.width) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        x = x + sinusoid(torch.arange(x.shape[1], device=x.device), x.shape[2], x.dtype)
        for norm, linear in zip(self.norms, self.linears, strict=True):
            x = gelu(linear(norm(x)))
        return x


class Layer(nn.Module):
    """A mixer and what follows it; returns the branch that is added to the residual stream."""

    def __init__(self, block: BlockSpec, spec: ModelSpec, context: dict[str, Any]):
        super().__init__()
        self.parallel, self.drop, self.kind = block.parallel, spec.dropout_residual, block.mixer.kind
        self.norm_mixer = norm_of(spec)
        self.mixer: Any = block.mixer.build(spec.width, **context, canon="B" in block.canon)
        self.norm_mlp = norm_of(spec) if block.mlp != "none" else None
        self.mlp: Any = nn.Identity()
        if block.mlp in ("gelu", "swiglu"):
            hidden = round(spec.width * spec.mlp_ratio)
            self.mlp = MLP(spec.width, hidden, gated=block.mlp == "swiglu", canon="D" in block.canon)
        self.canon_mixer = Canon(spec.width) if "A" in block.canon else None
        self.canon_mlp = Canon(spec.width) if "C" in block.canon else None

    def forward(self, x: Tensor) -> Tensor:
        mixed = _after(self.norm_mixer, x, self.mixer, self.canon_mixer)
        if getattr(mixed, "shape", None) != x.shape:  # a smaller one would be broadcast without a word
            gives = tuple(mixed.shape) if isinstance(mixed, Tensor) else type(mixed).__name__
            raise SpecError(f"{self.kind}: input {tuple(x.shape)} gives output {gives}: the shapes must be equal")
        return self._finish(x, mixed, lambda seen: _after(self.norm_mlp, seen, self.mlp, self.canon_mlp))

    def _finish(self, x: Tensor, mixed: Tensor, mlp: Callable[[Tensor], Tensor]) -> Tensor:
        mixed = rng.dropout(mixed, self.drop)
        if self.norm_mlp is None:
            return mixed
        seen = x if self.parallel else x + mixed
        return mixed + rng.dropout(mlp(seen), self.drop)

    def canons(self) -> dict[str, Canon]:
        """The Canon layers outside the mixer, by the names that their states have."""
        hidden = getattr(self.mlp, "canon", None)
        canons = {"canon_mixer": self.canon_mixer, "canon_mlp": self.canon_mlp, "canon_hidden": hidden}
        return {name: canon for name, canon in canons.items() if canon is not None}

    def initial_state(self, batch: int) -> State:
        """The state before the first token: the mixer's, and those of the Canon layers around it."""
        around = {name: canon.initial_state(batch) for name, canon in self.canons().items()}
        return {**self.mixer.initial_state(batch), **around}

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """One token: (batch, width) and a state give the branch and the next state."""
        new = {}

        def through(part: Any, name: str, seen: Tensor) -> Tensor:
            """What a part gives, by its own step where its Canon layer has a state of this name."""
            if name not in state:
                return seen if part is None else part(seen)
            seen, new[name] = part.step(seen, state[name])
            return seen

        def mlp(seen: Tensor) -> Tensor:
            assert self.norm_mlp is not None, "there is a norm where there is an MLP"
            return through(self.mlp, "canon_hidden", through(self.canon_mlp, "canon_mlp", self.norm_mlp(seen)))

        mixed, after = self.mixer.step(through(self.canon_mixer, "canon_mixer", self.norm_mixer(x)), state)
        return self._finish(x, mixed, mlp), {**after, **new}

    def state_size(self, length: int) -> int:
        """Elements of the state of one sequence after `length` tokens."""
        return self.mixer.state_size(length) + sum(canon.initial_state(1).numel() for canon in self.canons().values())

    def flops(self, length: int) -> int:
        """Floating-point operations of `forward` for one sequence: the mixer's, the MLP's and the Canon layers'."""
        return self.mixer.flops(length) + map_flops(length, self.mlp, self.canon_mixer, self.canon_mlp)


def _after(norm: Norm | None, x: Tensor, part: Any, canon: Canon | None = None) -> Tensor:
    """part(norm(x)), or part(canon(norm(x))); by the part's own method where it has a faster one."""
    assert norm is not None, "there is a norm before every part"
    if canon is not None:
        return part(canon(norm(x)))
    return part.after_norm(norm, x) if takes_norm(part, x) else part(norm(x))


def sinusoid(position: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    """Absolute positions (Vaswani et al. 2017): (length, width), for embeddings of unit variance as theirs."""
    frequency = 10_000.0 ** (-torch.arange(0, width, 2, device=position.device) / width)  # (ceil(width/2),)
    angle = position[:, None] * frequency
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :width].to(dtype)


def norm_of(spec: ModelSpec) -> Norm:
    """The norm of a model's kind and width."""
    return nn.LayerNorm(spec.width) if spec.norm == "layer" else nn.RMSNorm(spec.width, eps=1e-5)
