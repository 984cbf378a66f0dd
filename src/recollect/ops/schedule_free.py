"""Schedule-free AdamW's step on one parameter of several members (Defazio et al. 2024, as their package computes it).

    v = beta2 v + (1 - beta2) g^2        d = g / (sqrt(v / (1 - beta2^t)) + eps) + decay y
    y = (1 - c) y + c z - lr (1 - beta1 (1 - c)) d        z = z - lr d

y is where gradients are taken, z the point that takes plain steps, c the weight of the newest z in the average
x = y + (1 - 1 / beta1) (z - y), at which a model is measured.

Shapes: y, g, z, v (members, ...), contiguous; every number of a member is an entry of a column (members,).
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from recollect.ops import triton as kernels
from recollect.ops.fused import use_kernels


class Scales(NamedTuple):
    """What a step multiplies and divides by: the columns of the tensor that the definition and the kernel read, in order."""

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
    """The columns of `Scales` at a step (1 is the first): (members, columns). Of the members' numbers it takes `lr`, `clip`,
    `weight_decay`, `beta1`, `beta2` and `eps`, each (members,)."""
    lr, beta1, beta2 = numbers["lr"], numbers["beta1"], numbers["beta2"]
    columns = Scales(
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
    """Move y, z and v in place. If no member clips its gradients, that product is skipped."""
    s = Scales(*scales.view(*scales.shape, *(1,) * (y.dim() - 1)).unbind(1))
    if clips:
        g = g * s.clip
    v.mul_(s.keep_square).addcmul_(g * s.new_square, g)
    direction = g / (v / s.correction).sqrt_().add_(s.eps)
    if decays:
        direction.addcmul_(y, s.decay)
    y.lerp_(z, s.newest.expand_as(y)).sub_(direction * s.ahead)
    z.sub_(direction.mul_(s.rate))


def schedule_free(y: Tensor, g: Tensor, z: Tensor, v: Tensor, scales: Tensor, decays: bool, clips: bool) -> None:
    """The same; on a GPU in one pass over the numbers. `scales` is in the precision of y."""
    if use_kernels(y):
        kernels.optimisers.schedule_free_step(y, g, z, v, scales, decays)
    else:
        schedule_free_definition(y, g, z, v, scales, decays, clips)
