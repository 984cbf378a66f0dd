"""AdamW over stacked parameters, each member with its own rates (Loshchilov & Hutter 2019, as torch.optim.AdamW computes it)."""

import math
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from recollect.train.run import TrainSpec

Parameters = dict[str, Tensor]
"""Named parameters, each with the members on axis 0."""


@dataclass
class Rates:
    """What may differ from member to member: each (members,)."""

    lr: Tensor
    weight_decay: Tensor
    beta1: Tensor
    beta2: Tensor
    eps: Tensor
    clip: Tensor
    clips: bool = False
    """Whether any member's gradients are clipped."""

    @classmethod
    def of(cls, members: list[TrainSpec], device: torch.device) -> "Rates":
        """The rates of some members, in order; in float64, whatever the parameters are in."""
        columns = {f.name: [getattr(m, f.name) for m in members] for f in fields(cls) if f.name != "clips"}
        tensors = {name: torch.tensor(x, dtype=torch.float64, device=device) for name, x in columns.items()}
        return cls(**tensors, clips=any(m.clip for m in members))

    def select(self, members: Tensor) -> "Rates":
        """The rates of some of the members."""
        return replace(self, **{name: x[members] for name, x in vars(self).items() if name != "clips"})


def schedule(spec: TrainSpec, step: int) -> float:
    """What multiplies the peak learning rate at a step (0 is the first)."""
    if step < spec.warmup_steps:
        return (step + 1) / spec.warmup_steps
    if spec.schedule == "constant":
        return 1.0
    share = (step - spec.warmup_steps) / max(
        1, spec.total_steps - spec.warmup_steps
    )  # 0 .. <1, of what follows warm-up
    return 1 - share if spec.schedule == "linear" else 0.5 * (1 + math.cos(math.pi * share))


def gradient_norms(grads: list[Tensor]) -> Tensor:
    """The norm of each member's whole gradient: (members,)."""
    return sum((g.reshape(len(g), -1).square().sum(1) for g in grads), torch.zeros((), device=grads[0].device)).sqrt()


def clip_gradients(grads: list[Tensor], norms: Tensor, rates: Rates) -> list[Tensor]:
    """Gradients scaled so that no member's norm exceeds its `clip` (0: as they are)."""
    if not rates.clips:
        return grads
    scale = torch.where(rates.clip > 0, (rates.clip / (norms + 1e-6)).clamp(max=1.0), 1.0)
    return [g * _along(scale, g) for g in grads]


@torch.no_grad()
def adamw(
    params: Parameters,
    grads: list[Tensor],
    mean: Parameters,
    square: Parameters,
    rates: Rates,
    step: int,
    factor: float,
    decay: str,
) -> None:
    """One step in place; `mean` and `square` are the running moments, `step` counts from 1, `factor` is the schedule's."""
    lr = rates.lr * factor
    rate = lr / (1 - rates.beta1**step)
    correction = (1 - rates.beta2**step).sqrt()
    for (name, p), g in zip(params.items(), grads, strict=True):
        m, v = mean[name], square[name]
        if decay == "all" or p.dim() > 2:
            p.mul_(_along(1 - lr * rates.weight_decay, p))
        m.lerp_(g, _along(1 - rates.beta1, p).expand_as(p))
        v.mul_(_along(rates.beta2, p)).addcmul_(g * _along(1 - rates.beta2, p), g)
        denominator = v.sqrt().div_(_along(correction, p)).add_(_along(rates.eps, p))
        p.addcdiv_(m * _along(-rate, p), denominator)


def _along(x: Tensor, p: Tensor) -> Tensor:
    """(members,) shaped to multiply (members, ...)."""
    return x.to(p.dtype).view(-1, *(1,) * (p.dim() - 1))
