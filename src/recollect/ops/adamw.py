"""AdamW's step on one parameter of several members (Loshchilov & Hutter 2019, as torch.optim.AdamW computes it).

    m = beta1 m + (1 - beta1) g        v = beta2 v + (1 - beta2) g^2
    p = (1 - lr decay) p - lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps)

Shapes: p, g, m, v (members, ...), contiguous; every number of a member is an entry of a column (members,).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.optim.adamw import adamw as torch_adamw

from recollect.ops import triton as kernels
from recollect.ops.fused import use_kernels


class Scales(NamedTuple):
    """What a step multiplies and divides by: the columns of the tensor that the definition and the kernel read, in order."""

    clip: Tensor  # multiplies the gradient
    shrink: Tensor  # multiplies a parameter that decays
    rate: Tensor  # the learning rate, corrected for the mean's start at zero
    eps: Tensor  # is added to the denominator
    new_mean: Tensor  # the weight of the gradient in the running mean
    keep_square: Tensor  # the weight of the old running square ..
    new_square: Tensor  # .. and that of the squared gradient in the new one
    correction: Tensor  # divides the root of the running square, for its start at zero


def adamw_scales(numbers: Mapping[str, Tensor], step: int | Tensor) -> Tensor:
    """The columns of `Scales` at a step (1 is the first): (members, columns). Of the members' numbers it takes `lr`, `clip`,
    `weight_decay`, `beta1`, `beta2` and `eps`, each (members,)."""
    lr, beta1, beta2 = numbers["lr"], numbers["beta1"], numbers["beta2"]
    columns = Scales(
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
    """Move p, m and v in place. If no member clips its gradients, that product is skipped."""
    s = Scales(*scales.view(*scales.shape, *(1,) * (p.dim() - 1)).unbind(1))
    if clips:
        g = g * s.clip
    if decays:
        p.mul_(s.shrink)
    m.lerp_(g, s.new_mean.expand_as(p))
    v.mul_(s.keep_square).addcmul_(g * s.new_square, g)
    p.addcdiv_(m * -s.rate, v.sqrt().div_(s.correction).add_(s.eps))


def adamw(p: Tensor, g: Tensor, m: Tensor, v: Tensor, scales: Tensor, decays: bool, clips: bool) -> None:
    """The same; on a GPU in one pass over the numbers. `scales` is in the precision of p."""
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
