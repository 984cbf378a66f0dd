"""How the checks build mixers, run them alone and together, and compare numbers, saying where they differ."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from recollect.rng import seeded
from recollect.spec.errors import line_of

Make = Callable[[], nn.Module]

TOLERANCE = 1e-9  # of float64 results, relative to the largest number compared or to 1


def build(make: Make, kind: torch.dtype = torch.float64, seed: int = 0) -> Any:
    """A fresh module, with every parameter slightly perturbed, so that a parameter that starts at zero cannot hide a fault."""
    with seeded(seed, "conformance"), torch.no_grad():
        module: Any = make()  # it has methods that nn.Module does not
        if hasattr(module, "initialise"):
            module.initialise()
        for p in module.parameters():
            p += 0.05 * torch.randn_like(p)
    return module.to(kind)


def numbers(*shape: int, kind: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    """Normal numbers, the same at every call."""
    return torch.randn(shape, dtype=kind, generator=torch.Generator().manual_seed(1000 + seed))


def results(module: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """The output and the gradient of each parameter it depends on, each output with its own weight. x (batch, ..)."""
    y, weights = module(x), {n: p for n, p in module.named_parameters() if p.requires_grad}
    loss = (y * numbers(*x.shape, kind=x.dtype, seed=1)).sum()
    return _with_gradients(y, loss, weights)


def together(members: list[nn.Module], x: Tensor) -> dict[str, Tensor]:
    """The same for members as a cohort trains them: forward under vmap, gradients outside. x (members, batch, ..)."""
    weights = {n: p.detach().requires_grad_() for n, p in stack_module_state(members)[0].items()}
    shared = copy.deepcopy(members[0])
    y = vmap(lambda own, x: functional_call(shared, own, (x,)))(weights, x)
    loss = (y * numbers(*x.shape[1:], kind=x.dtype, seed=1)).sum()
    return _with_gradients(y, loss, weights)


def _with_gradients(y: Tensor, loss: Tensor, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    grads = torch.autograd.grad(loss, list(weights.values()), allow_unused=True) if weights else ()
    named = zip(weights, grads, strict=True)
    return {"output": y.detach()} | {f"gradient of {n!r}": g for n, g in named if g is not None}


def assert_finite(module: nn.Module, x: Tensor, where: str) -> None:
    """The output and every parameter's gradient exist and are finite."""
    values = results(module, x)
    for name, p in module.named_parameters():
        used = f"gradient of {name!r}" in values
        assert used or not p.requires_grad, f"parameter {name!r} gets no gradient: the output does not depend on it"
    for name, value in values.items():
        bad = value.isfinite().logical_not()
        assert not bad.any(), f"{where}: {name} is not finite, first at {location(bad)}, {bad.sum()} in all"


def assert_close(got: Tensor, expected: Tensor, what: str, *axes: str) -> None:
    """Equal to `TOLERANCE`, or an error that begins with `what` and says where."""
    off, where = largest(got - expected, *axes)
    assert off <= TOLERANCE * scale(expected), f"{what} off by {off:.3g} at {where}"


def scale(x: Tensor) -> float:
    """What a difference is measured against: the largest magnitude, or 1 if all are smaller."""
    return max(1.0, x.abs().max().item())


def largest(difference: Tensor, *axes: str, first: int = 0) -> tuple[float, str]:
    """The largest magnitude (nan is larger still) and its location; `first` is what the axis "position" starts at."""
    size = difference.detach().abs().nan_to_num(nan=torch.inf)
    return size.max().item(), location(size == size.max(), *axes, first=first)


def location(mask: Tensor, *axes: str, first: int = 0) -> str:
    """The first index at which `mask` holds, in words where its axes have names."""
    index = mask.nonzero()[0].tolist()
    words = [f"{axis} {i + first * (axis == 'position')}" for axis, i in zip(axes, index, strict=False)]
    rest = index[len(words) :]
    return ", ".join([*words, *([f"index {rest}"] if rest else [])]) or "its only element"


def in_one_line(error: Exception) -> str:
    """An error in one line, with the line of the user's code that raised it, where one did."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}{line_of(error)}"
