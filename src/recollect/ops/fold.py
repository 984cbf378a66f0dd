"""How an op that vmap cannot batch well joins a cohort: its member axis is folded into axis 0.

vmap runs a model's forward for all members at once. Most of PyTorch follows by itself. An op with its own kernel or
its own backward is registered here as a custom op; every tensor it takes and gives has an axis 0 of independent rows,
and with members it sees (members * rows, ...). Gradients are taken outside vmap (see train/cohort.py).
"""

from collections.abc import Callable

import torch
from torch import Tensor


def folded(
    name: str, forward: Callable, backward: Callable, fake: Callable, fake_backward: Callable, saves_output: bool = True
) -> Callable:
    """Register `forward` and `backward` as the custom op `recollect::name`, differentiable and foldable.

    `forward(*tensors) -> tuple of tensors`: the first is the result; the others are kept for backward, not differentiated.
    `backward(grad, *tensors, *outputs) -> tuple of tensors`, a gradient for each input, or for the first of them where the
    others are whole numbers (`*outputs` is left out where `saves_output` is false: then backward recomputes).
    `fake` and `fake_backward` give empty tensors of the right shapes. All are typed, as torch.library asks.
    """
    op = torch.library.custom_op(f"recollect::{name}", forward, mutates_args=())
    op_backward = torch.library.custom_op(f"recollect::{name}_backward", backward, mutates_args=())
    op.register_fake(fake)
    op_backward.register_fake(fake_backward)

    def save(ctx, inputs, output):
        ctx.set_materialize_grads(False)  # outputs kept for backward get no gradient: make no zeros for them
        ctx.save_for_backward(*inputs, *(output if saves_output else ()))
        ctx.inputs = len(inputs)

    def differentiate(ctx, grad, *_):
        grads = op_backward(grad.contiguous(), *ctx.saved_tensors)
        return *grads, *(None,) * (ctx.inputs - len(grads))

    op.register_autograd(differentiate, setup_context=save)
    op.register_vmap(_fold(op))
    op_backward.register_vmap(_fold(op_backward))
    return op


def alone_on_cpu(x: Tensor) -> bool:
    """Whether x is on the CPU and not of several members: then a form may be taken whose last bits depend on a tensor's size."""
    return x.device.type == "cpu" and not torch._C._functorch.is_batchedtensor(x)


def _fold(op: Callable) -> Callable:
    def rule(info, in_dims: tuple[int | None, ...], *tensors: Tensor):
        members = info.batch_size
        flat = []
        for x, dim in zip(tensors, in_dims, strict=True):
            x = x.unsqueeze(0).expand(members, *x.shape) if dim is None else x.movedim(dim, 0)
            flat.append(x.flatten(0, 1))
        outputs = tuple(x.unflatten(0, (members, -1)) for x in op(*flat))
        return outputs, (0,) * len(outputs)

    return rule
