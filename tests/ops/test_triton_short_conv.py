"""The short convolution on GPUs: its kernels, run by Triton's interpreter, and its form without kernels.

The interpreter must be asked for before Triton is imported, so a process of its own (this file as a script) computes how
far the kernels are from the definition, and the tests here judge it.
"""

import json
import sys
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.func import vmap

from recollect.ops.short_conv import Activation, shifted_products, short_conv, short_conv_definition

CASES = {  # members, batch, length, channels, kernel
    "one of each": (1, 1, 1, 1, 1),
    "a filter longer than the row": (1, 2, 2, 5, 4),
    "an odd number of channels": (1, 1, 7, 33, 3),
    "several runs of tokens": (1, 1, 35, 5, 4),
    "several blocks of tokens": (1, 2, 65, 5, 4),
    "several blocks of channels": (1, 1, 2, 129, 4),
    "members with filters of their own": (3, 2, 9, 5, 4),
}
NAMES = ("y", "x", "w", "b")
FORMS: list[tuple[bool, Activation]] = [(False, "none"), (False, "silu"), (True, "none"), (True, "silu")]


def results(op, tensors: list[Tensor]) -> list[Tensor]:
    leaves = [t.clone().requires_grad_() for t in tensors]
    y = vmap(op)(*leaves)
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    return [y, *torch.autograd.grad((y * weights).sum(), leaves)]


def errors(
    op, members: int, batch: int, length: int, channels: int, kernel: int, biased: bool = False,
    activation: Activation = "none", dtype: torch.dtype = torch.float32,
) -> dict[str, float]:  # fmt: skip
    """||op - definition|| / ||definition|| of the result and of every gradient; x of this dtype, its weights of float32."""
    torch.manual_seed(length)
    tensors = [torch.randn(members, batch, length, channels).to(dtype), torch.randn(members, channels, kernel)]
    tensors += [torch.randn(members, channels)] * biased
    got = results(op, tensors)
    expected = results(partial(short_conv_definition, activation=activation), [t.double() for t in tensors])
    assert [t.dtype for t in got] == [dtype, dtype, *(torch.float32 for _ in tensors[1:])]
    pairs = zip(NAMES, got, expected, strict=False)
    return {name: ((a - b).norm() / b.norm().clamp(min=1e-9)).item() for name, a, b in pairs}


def part_of_a_projection(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """The convolution of x where it is some of another tensor's channels, as in Mamba."""
    return short_conv(torch.cat([x, x + 1], dim=-1)[..., : x.shape[-1]], w, b, "silu")


@pytest.mark.parametrize("case", [*(f"{case} {form}" for case in CASES for form in FORMS), "part of a projection"])
def test_kernels_are_the_definition_forward_and_backward(case, measured):
    for name, error in measured[case].items():
        assert error < 1e-4, f"{name} is off by {error}"


@pytest.mark.parametrize("form", FORMS)
def test_x_may_be_shorter_than_the_weights_and_decides_the_result(form, measured):
    for name, error in measured[f"short {form}"].items():
        assert error < 2e-3, f"{name} is off by {error}"


@pytest.mark.parametrize("case", CASES)
def test_form_without_kernels_is_the_definition_forward_and_backward(case):
    for name, error in errors(shifted_products, *CASES[case]).items():
        assert error < 1e-5, f"{name} is off by {error}"


if __name__ == "__main__":
    found = {}
    for form in FORMS:
        op = partial(short_conv, activation=form[1])
        found |= {f"{case} {form}": errors(op, *sizes, *form) for case, sizes in CASES.items()}
        found[f"short {form}"] = errors(op, 2, 2, 33, 33, 4, *form, torch.float16)
    found["part of a projection"] = errors(part_of_a_projection, 2, 2, 9, 5, 4, True, "silu")
    assert "recollect.ops.triton.short_conv" in sys.modules, "the plain form was measured"
    json.dump(found, sys.stdout)
