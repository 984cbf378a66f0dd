"""Registration of a custom op, in one call: how a cohort's members fold into it, its shapes for tracing, and its gradients.

vmap runs a model's forward for all members at once. Most of PyTorch supports that by itself. An op with its own kernel or its own
backward is registered here; every tensor it takes and returns has an axis 0 of independent rows, and with members it sees
(members * rows, ...). Gradients are taken outside vmap (see train/cohort.py).
"""

import inspect
from collections.abc import Callable

import torch
from torch import Tensor


def op(name: str, forward: Callable, backward: Callable, fake: Callable, gradients: int | None = None) -> Callable:
    """Register `recollect::name`, differentiable and foldable, and return it.

    `forward(*inputs) -> tuple of tensors`: the first is the result; the others are saved for backward and have no gradient.
        Inputs are tensors, tensors that may be None, ints, floats, bools and strings; annotations say which.
    `backward(grad, *inputs, *outputs) -> tuple of tensors`: contiguous gradients of the first `gradients` inputs that are
        tensors, by default of all of them, and an empty tensor for None. It recomputes where it does not take the outputs.
    `fake(*inputs)` returns empty tensors of the shapes that forward returns.
    """
    inputs = inspect.signature(forward).parameters
    schema = torch.library.infer_schema(forward, mutates_args=())
    arguments, returns = schema[1:].split(") -> ")
    tensors = [i for i, argument in enumerate(arguments.split(", ")) if argument.startswith("Tensor")]
    differentiable = tensors[:gradients]
    recomputes = not takes_outputs(forward, backward)
    outputs = [] if recomputes else [f"Tensor output_{i}" for i in range(returns.count("Tensor"))]
    grads = ", ".join("Tensor" for _ in differentiable)
    backward_schema = f"({', '.join(['Tensor grad', arguments, *outputs])}) -> (({grads}))"

    def fake_backward(grad: Tensor, *saved) -> tuple[Tensor, ...]:
        given = (saved[i] for i in differentiable)
        return tuple(grad.new_empty(0) if x is None else x.new_empty(x.shape) for x in given)

    whole = torch.library.custom_op(f"recollect::{name}", forward, mutates_args=(), schema=schema)
    whole_backward = torch.library.custom_op(
        f"recollect::{name}_backward", backward, mutates_args=(), schema=backward_schema
    )
    whole.register_fake(fake)
    whole_backward.register_fake(fake_backward)

    def save(ctx, inputs, output):
        ctx.set_materialize_grads(False)  # outputs saved for backward get no gradient: make no zeros for them
        saved = (*inputs, *(() if recomputes else output))
        ctx.save_for_backward(*(x for x in saved if isinstance(x, Tensor)))
        ctx.plain = {i: x for i, x in enumerate(saved) if not isinstance(x, Tensor)}
        ctx.count = len(saved)

    def differentiate(ctx, grad, *_):
        tensors = iter(ctx.saved_tensors)
        saved = [ctx.plain[i] if i in ctx.plain else next(tensors) for i in range(ctx.count)]
        given = dict(zip(differentiable, whole_backward(grad.contiguous(), *saved), strict=True))
        return tuple(None if i in ctx.plain else given.get(i) for i in range(len(inputs)))

    whole.register_autograd(differentiate, setup_context=save)
    whole.register_vmap(_fold(whole))
    whole_backward.register_vmap(_fold(whole_backward))
    return whole


def takes_outputs(forward: Callable, backward: Callable) -> bool:
    """Whether `backward` takes what `forward` returned beside what it took."""
    taken = inspect.signature(backward).parameters.values()
    return len(taken) > 1 + len(inspect.signature(forward).parameters) or any(p.kind is p.VAR_POSITIONAL for p in taken)


def _fold(whole: Callable) -> Callable:
    """The vmap rule: axis 0 of every tensor becomes members * rows."""

    def rule(info, in_dims: tuple[int | None, ...], *inputs):
        members = info.batch_size
        flat = []
        for x, dim in zip(inputs, in_dims, strict=True):
            if isinstance(x, Tensor):
                x = x.unsqueeze(0).expand(members, *x.shape) if dim is None else x.movedim(dim, 0)
                x = x.flatten(0, 1)
            flat.append(x)
        outputs = tuple(x.unflatten(0, (members, -1)) for x in whole(*flat))
        return outputs, (0,) * len(outputs)

    return rule
