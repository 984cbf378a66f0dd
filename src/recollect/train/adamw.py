"""AdamW over stacked parameters, each member with its own rates (Loshchilov & Hutter 2019, as torch.optim.AdamW computes it)."""

import math
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from recollect.ops.triton import available
from recollect.train.spec import TrainSpec

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


@torch.no_grad()
def adamw(
    params: Parameters,
    grads: list[Tensor],
    norms: Tensor,
    mean: Parameters,
    square: Parameters,
    rates: Rates,
    step: int | Tensor,
    factor: float | Tensor,
    decay: str,
) -> None:
    """One step in place; `mean` and `square` are the running moments, `step` counts from 1, `factor` is the schedule's."""
    scales = _scales(norms, rates, step, factor)
    short = scales.float().contiguous()
    for (name, p), g in zip(params.items(), grads, strict=True):
        decays = decay == "all" or p.dim() > 2
        if available(p):
            from recollect.ops.triton import adamw as kernels

            kernels.step(p, g, mean[name], square[name], short, decays)
        else:
            _step(p, g, mean[name], square[name], scales, decays, rates.clips)


def _scales(norms: Tensor, rates: Rates, step: int | Tensor, factor: float | Tensor) -> Tensor:
    """What a member's numbers are multiplied by, columns as `_step` reads them: (members, 8), in float64."""
    lr = rates.lr * factor
    clip = torch.where(rates.clip > 0, (rates.clip / (norms + 1e-6)).clamp(max=1.0), 1.0)
    return torch.stack(
        [clip, 1 - lr * rates.weight_decay, lr / (1 - rates.beta1**step), rates.eps, 1 - rates.beta1, rates.beta2,
         1 - rates.beta2, (1 - rates.beta2**step).sqrt()],
        dim=1,
    )  # fmt: skip


def _step(p: Tensor, g: Tensor, m: Tensor, v: Tensor, scales: Tensor, decays: bool, clips: bool) -> None:
    columns = scales.to(p.dtype).view(len(p), 8, *(1,) * (p.dim() - 1)).unbind(1)
    clip, shrink, rate, eps, new_mean, keep_square, new_square, correction = columns
    if clips:
        g = g * clip
    if decays:
        p.mul_(shrink)
    m.lerp_(g, new_mean.expand_as(p))
    v.mul_(keep_square).addcmul_(g * new_square, g)
    p.addcdiv_(m * -rate, v.sqrt().div_(correction).add_(eps))
