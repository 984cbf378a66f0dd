"""The kernels of RWKV-4's average, run by Triton's interpreter: they are the recurrence, for keys of any size.

The interpreter must be asked for before Triton is imported, so a process of its own (this file as a script) computes how
far the kernels are from the definition, and the tests here judge it.
"""

import json
import sys

import pytest
import torch
from torch import Tensor
from torch.func import vmap

from recollect.ops.wkv import wkv, wkv_definition

CASES = {  # members, batch, length, channels, size of keys
    "one of each": (1, 1, 1, 1, 1.0),
    "two tokens": (1, 2, 2, 5, 1.0),
    "more channels than a warp has threads": (1, 1, 7, 33, 1.0),
    "a long row": (1, 1, 65, 5, 3.0),
    "several blocks of channels": (1, 1, 2, 130, 1.0),
    "members with decays of their own": (3, 2, 9, 5, 1.0),
}
NAMES = ("y", "w", "u", "k", "v")


def results(op, tensors: list[Tensor]) -> list[Tensor]:
    leaves = [t.clone().requires_grad_() for t in tensors]
    y = vmap(op)(*leaves)
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    return [y, *torch.autograd.grad((y * weights).sum(), leaves, allow_unused=True, materialize_grads=True)]


def inputs(members: int, batch: int, length: int, channels: int, size: float) -> list[Tensor]:
    torch.manual_seed(length)
    k, v = torch.randn(2, members, batch, length, channels)
    return [2 * torch.rand(members, channels), torch.randn(members, channels), size * k, v]


def errors(tensors: list[Tensor]) -> dict[str, float]:
    """||kernel - definition|| / ||definition|| of the result and of every gradient."""
    got = results(wkv, tensors)
    expected = results(wkv_definition, [t.double() for t in tensors])
    pairs = zip(NAMES, got, expected, strict=True)
    return {name: ((a - b).norm() / b.norm().clamp(min=1e-9)).item() for name, a, b in pairs}


@pytest.mark.parametrize("case", CASES)
def test_kernels_are_the_recurrence_forward_and_backward(case, measured):
    for name, error in measured[case].items():
        assert error < 1e-4, f"{name} is off by {error}"


def test_keys_of_a_thousand_overflow_nothing(measured):
    assert measured["large keys"]["largest"] <= 1.0001  # an average is no larger than what it is of
    assert measured["large keys"]["finite"]


def large_keys() -> dict[str, float]:
    w, u, k, v = inputs(1, 1, 33, 4, 1.0)
    y, *gradients = results(wkv, [w, 1000 * u, 1000 * k.sign(), v])
    finite = all(g.isfinite().all() for g in gradients)
    return {"largest": (y.abs().max() / v.abs().max()).item(), "finite": finite}


if __name__ == "__main__":
    found = {case: errors(inputs(*sizes)) for case, sizes in CASES.items()} | {"large keys": large_keys()}
    assert "recollect.ops.triton.wkv" in sys.modules, "the plain form was measured"
    json.dump(found, sys.stdout)
