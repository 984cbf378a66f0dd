"""Lion's step on one parameter of several members (Chen et al. 2023).

    p = (1 - lr decay) p - lr sign(beta1 m + (1 - beta1) g)        m = beta2 m + (1 - beta2) g

Shapes: p, g, m (members, ...), contiguous; every number of a member is an entry of a column (members,).
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from recollect.ops import triton as kernels
from recollect.ops.fused import use_kernels


class Scales(NamedTuple):
    """What a step multiplies by: the columns of the tensor that the definition and the kernel read, in order."""

    clip: Tensor  # multiplies the gradient
    shrink: Tensor  # multiplies a parameter that decays
    rate: Tensor  # the learning rate
    new_direction: Tensor  # the weight of the gradient in the direction of the step
    new_mean: Tensor  # the weight of the gradient in the running mean


def lion_scales(numbers: Mapping[str, Tensor]) -> Tensor:
    """The columns of `Scales`: (members, columns). Of the members' numbers it takes `lr`, `clip`, `weight_decay`, `beta1` and
    `beta2`, each (members,)."""
    lr = numbers["lr"]
    columns = Scales(
        clip=numbers["clip"],
        shrink=1 - lr * numbers["weight_decay"],
        rate=lr,
        new_direction=1 - numbers["beta1"],
        new_mean=1 - numbers["beta2"],
    )
    return torch.stack(columns, dim=1)


def lion_definition(p: Tensor, g: Tensor, m: Tensor, scales: Tensor, decays: bool, clips: bool) -> None:
    """Move p and m in place. If no member clips its gradients, that product is skipped."""
    s = Scales(*scales.view(*scales.shape, *(1,) * (p.dim() - 1)).unbind(1))
    if clips:
        g = g * s.clip
    if decays:
        p.mul_(s.shrink)
    p.sub_(m.lerp(g, s.new_direction.expand_as(p)).sign_().mul_(s.rate))
    m.lerp_(g, s.new_mean.expand_as(p))


def lion(p: Tensor, g: Tensor, m: Tensor, scales: Tensor, decays: bool, clips: bool) -> None:
    """The same; on a GPU in one pass over the numbers. `scales` is in the precision of p."""
    if use_kernels(p):
        kernels.optimisers.lion_step(p, g, m, scales, decays)
    else:
        lion_definition(p, g, m, scales, decays, clips)
