"""The short convolution on GPUs: its kernels, run by Triton's interpreter, and its form without kernels.

The interpreter must be asked for before Triton is imported, so a process of its own (this file as a script) computes how
far the kernels are from the definition, and the tests here judge it.
"""

import json
import sys

import pytest
import torch
from torch import Tensor
from torch.func import vmap

from recollect.ops.short_conv import shifted_products, short_conv, short_conv_definition

CASES = {  # members, batch, length, channels, kernel
    "one of each": (1, 1, 1, 1, 1),
    "a filter longer than the row": (1, 2, 2, 5, 4),
    "an odd number of channels": (1, 1, 7, 33, 3),
    "several blocks of tokens": (1, 2, 65, 5, 4),
    "several blocks of channels": (1, 1, 2, 65, 4),
    "members with filters of their own": (3, 2, 9, 5, 4),
}
NAMES = ("y", "x", "w")


def results(op, tensors: list[Tensor]) -> list[Tensor]:
    leaves = [t.clone().requires_grad_() for t in tensors]
    y = vmap(op)(*leaves)
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    return [y, *torch.autograd.grad((y * weights).sum(), leaves)]


def errors(op, members: int, batch: int, length: int, channels: int, kernel: int) -> dict[str, float]:
    """||op - definition|| / ||definition|| of the result and of every gradient."""
    torch.manual_seed(length)
    tensors = [torch.randn(members, batch, length, channels), torch.randn(members, channels, kernel)]
    got = results(op, tensors)
    expected = results(short_conv_definition, [t.double() for t in tensors])
    pairs = zip(NAMES, got, expected, strict=True)
    return {name: ((a - b).norm() / b.norm().clamp(min=1e-9)).item() for name, a, b in pairs}


def part_of_a_projection(x: Tensor, w: Tensor) -> Tensor:
    """The convolution of x where it is some of another tensor's channels, as in Mamba."""
    return short_conv(torch.cat([x, x + 1], dim=-1)[..., : x.shape[-1]], w)


@pytest.mark.parametrize("case", [*CASES, "part of a projection"])
def test_kernels_are_the_definition_forward_and_backward(case, measured):
    for name, error in measured[case].items():
        assert error < 1e-4, f"{name} is off by {error}"


@pytest.mark.parametrize("case", CASES)
def test_form_without_kernels_is_the_definition_forward_and_backward(case):
    for name, error in errors(shifted_products, *CASES[case]).items():
        assert error < 1e-5, f"{name} is off by {error}"


if __name__ == "__main__":
    found = {case: errors(short_conv, *sizes) for case, sizes in CASES.items()}
    found["part of a projection"] = errors(part_of_a_projection, 2, 2, 9, 5, 4)
    assert "recollect.ops.triton.short_conv" in sys.modules, "the plain form was measured"
    json.dump(found, sys.stdout)
