"""The steps of optimisers on one parameter of several members.

AdamW (Loshchilov & Hutter 2019, as torch.optim.AdamW computes it):

    m = beta1 m + (1 - beta1) g        v = beta2 v + (1 - beta2) g^2
    p = (1 - lr decay) p - lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps)

Lion (Chen et al. 2023):

    p = (1 - lr decay) p - lr sign(beta1 m + (1 - beta1) g)        m = beta2 m + (1 - beta2) g

Schedule-free AdamW (Defazio et al. 2024, as their package computes it):

    v = beta2 v + (1 - beta2) g^2        d = g / (sqrt(v / (1 - beta2^t)) + eps) + decay y
    y = (1 - c) y + c z - lr (1 - beta1 (1 - c)) d        z = z - lr d

y is where gradients are taken, z the point that takes plain steps, c the weight of the newest z in the average
x = y + (1 - 1 / beta1) (z - y), at which a model is measured.

Shapes: p, g, m, v, y, z (members, ...), contiguous; every number of a member is an entry of a column (members,).

What a step multiplies and divides by is computed once per step: the columns of a tensor, in the order of the `..Scales` classes,
that definitions and kernels read. They are made of the members' numbers `lr`, `clip`, `weight_decay`, `beta1`, `beta2` and `eps`.
A definition moves its tensors in place, and skips the product with `clip` if no member clips its gradients. `adamw`, `lion` and
`schedule_free` are the same on a GPU in one pass over the numbers; `scales` is in the precision of the parameter.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.optim.adamw import adamw as torch_adamw

from recollect.ops import triton as kernels
from recollect.ops.fused import use_kernels


class AdamWScales(NamedTuple):
    """The columns of AdamW."""

    clip: Tensor  # multiplies the gradient
    shrink: Tensor  # multiplies a parameter that decays
    rate: Tensor  # the learning rate, corrected for the mean's start at zero
    eps: Tensor  # is added to the denominator
    new_mean: Tensor  # the weight of the gradient in the running mean
    keep_square: Tensor  # the weight of the old running square ..
    new_square: Tensor  # .. and that of the squared gradient in the new one
    correction: Tensor  # divides the root of the running square, for its start at zero


def adamw_scales(numbers: Mapping[str, Tensor], step: int | Tensor) -> Tensor:
    """The columns at a step (1 is the first): (members, columns)."""
    lr, beta1, beta2 = numbers["lr"], numbers["beta1"], numbers["beta2"]
    columns = AdamWScales(
        clip=numbers["clip"],
        shrink=1 - lr * numbers["weight_decay"],
        rate=lr / (1 - beta1**step),
        eps=numbers["eps"],
        new_mean=1 - beta1,
        keep_square=beta2,
        new_square=1 - beta2,
        correction=(1 - beta2**step).sqrt(),
    )
    return torch.stack(columns, dim=1)


def adamw_definition(p: Tensor, g: Tensor, m: Tensor, v: Tensor, scales: Tensor, decays: bool, clips: bool) -> None:
    """AdamW's step."""
    s = AdamWScales(*_columns(scales, p))
    if clips:
        g = g * s.clip
    if decays:
        p.mul_(s.shrink)
    m.lerp_(g, s.new_mean.expand_as(p))
    v.mul_(s.keep_square).addcmul_(g * s.new_square, g)
    p.addcdiv_(m * -s.rate, v.sqrt().div_(s.correction).add_(s.eps))


def adamw(p: Tensor, g: Tensor, m: Tensor, v: Tensor, scales: Tensor, decays: bool, clips: bool) -> None:
    """The same, by the kernel where it applies."""
    if use_kernels(p):
        kernels.optimisers.adamw_step(p, g, m, v, scales, decays)
    else:
        adamw_definition(p, g, m, v, scales, decays, clips)


def adamw_of_one(
    params: Sequence[Tensor], grads: Sequence[Tensor], means: Sequence[Tensor], squares: Sequence[Tensor],
    numbers: Mapping[str, float], step: int,
) -> None:  # fmt: skip
    """The same for several parameters of a single member on a CPU, by PyTorch's kernel: one pass over memory per parameter."""
    if not params:
        return
    scaled = grads if numbers["clip"] == 1 else [g * numbers["clip"] for g in grads]
    torch_adamw(
        list(params),
        [g.contiguous() for g in scaled],  # the kernel reads memory in order, whatever the strides
        list(means),
        list(squares),
        max_exp_avg_sqs=[],
        state_steps=list(torch.full((len(params),), float(step - 1)).unbind()),
        fused=True,
        amsgrad=False,
        maximize=False,
        beta1=numbers["beta1"],
        beta2=numbers["beta2"],
        lr=numbers["lr"],
        weight_decay=numbers["weight_decay"],
        eps=numbers["eps"],
    )


class LionScales(NamedTuple):
    """The columns of Lion."""

    clip: Tensor  # multiplies the gradient
    shrink: Tensor  # multiplies a parameter that decays
    rate: Tensor  # the learning rate
    new_direction: Tensor  # the weight of the gradient in the direction of the step
    new_mean: Tensor  # the weight of the gradient in the running mean


def lion_scales(numbers: Mapping[str, Tensor]) -> Tensor:
    """The columns at a step: (members, columns)."""
    lr = numbers["lr"]
    columns = LionScales(
        clip=numbers["clip"],
        shrink=1 - lr * numbers["weight_decay"],
        rate=lr,
        new_direction=1 - numbers["beta1"],
        new_mean=1 - numbers["beta2"],
    )
    return torch.stack(columns, dim=1)


def lion_definition(p: Tensor, g: Tensor, m: Tensor, scales: Tensor, decays: bool, clips: bool) -> None:
    """Lion's step."""
    s = LionScales(*_columns(scales, p))
    if clips:
        g = g * s.clip
    if decays:
        p.mul_(s.shrink)
    p.sub_(m.lerp(g, s.new_direction.expand_as(p)).sign_().mul_(s.rate))
    m.lerp_(g, s.new_mean.expand_as(p))


def lion(p: Tensor, g: Tensor, m: Tensor, scales: Tensor, decays: bool, clips: bool) -> None:
    """The same, by the kernel where it applies."""
    if use_kernels(p):
        kernels.optimisers.lion_step(p, g, m, scales, decays)
    else:
        lion_definition(p, g, m, scales, decays, clips)


class ScheduleFreeScales(NamedTuple):
    """The columns of schedule-free AdamW."""

    clip: Tensor  # multiplies the gradient
    rate: Tensor  # the learning rate, by which z moves
    ahead: Tensor  # by how much y moves along the same direction
    decay: Tensor  # the weight decay of a parameter that decays
    eps: Tensor  # is added to the denominator
    keep_square: Tensor  # the weight of the old running square ..
    new_square: Tensor  # .. and that of the squared gradient in the new one
    correction: Tensor  # divides the running square, for its start at zero
    newest: Tensor  # c


def schedule_free_scales(numbers: Mapping[str, Tensor], step: int | Tensor, newest: Tensor) -> Tensor:
    """The columns at a step (1 is the first), where the newest point counts c = `newest`: (members, columns)."""
    lr, beta1, beta2 = numbers["lr"], numbers["beta1"], numbers["beta2"]
    columns = ScheduleFreeScales(
        clip=numbers["clip"],
        rate=lr,
        ahead=lr * (1 - beta1 * (1 - newest)),
        decay=numbers["weight_decay"],
        eps=numbers["eps"],
        keep_square=beta2,
        new_square=1 - beta2,
        correction=1 - beta2**step,
        newest=newest,
    )
    return torch.stack(columns, dim=1)


def schedule_free_definition(
    y: Tensor, g: Tensor, z: Tensor, v: Tensor, scales: Tensor, decays: bool, clips: bool
) -> None:
    """Schedule-free AdamW's step."""
    s = ScheduleFreeScales(*_columns(scales, y))
    if clips:
        g = g * s.clip
    v.mul_(s.keep_square).addcmul_(g * s.new_square, g)
    direction = g / (v / s.correction).sqrt_().add_(s.eps)
    if decays:
        direction.addcmul_(y, s.decay)
    y.lerp_(z, s.newest.expand_as(y)).sub_(direction * s.ahead)
    z.sub_(direction.mul_(s.rate))


def schedule_free(y: Tensor, g: Tensor, z: Tensor, v: Tensor, scales: Tensor, decays: bool, clips: bool) -> None:
    """The same, by the kernel where it applies."""
    if use_kernels(y):
        kernels.optimisers.schedule_free_step(y, g, z, v, scales, decays)
    else:
        schedule_free_definition(y, g, z, v, scales, decays, clips)


def _columns(scales: Tensor, p: Tensor) -> tuple[Tensor, ...]:
    """Each column as a stacked parameter can be combined with it: (members, 1, ..)."""
    return scales.view(*scales.shape, *(1,) * (p.dim() - 1)).unbind(1)
