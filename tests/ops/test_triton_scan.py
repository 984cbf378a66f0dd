"""The selective scan's kernels, run by Triton's interpreter: they are the recurrence. And when kernels are chosen at all.

The interpreter must be asked for before Triton is imported, so a process of its own (this file as a script) computes how
far the kernels are from the definition, and the tests here judge it.
"""

import json
import sys

import pytest
import torch
from torch import Tensor
from torch.func import vmap

from recollect.ops.fused import use_kernels
from recollect.ops.selective_scan import selective_scan, selective_scan_definition

CASES = {  # members, batch, length, channels, states
    "one of each": (1, 1, 1, 1, 1),
    "two tokens": (1, 2, 2, 5, 3),
    "several blocks of channels": (1, 1, 7, 33, 16),
    "several parts and one token": (1, 2, 33, 5, 3),
    "one channel": (1, 1, 17, 1, 16),
    "nothing to mask": (2, 1, 8, 64, 16),
    "many states": (1, 1, 5, 9, 70),
    "members with rates of their own": (3, 2, 9, 5, 3),
}
SHIFTS = {"tiny steps": -12.0, "long steps": 30.0}  # of dt
NAMES = ("y", "x", "dt", "bias", "A", "B", "C", "D")


WIDE = (torch.float32,) * 7
SHORT = tuple(torch.float16 if name in ("x", "dt", "B", "C") else torch.float32 for name in NAMES[1:])
"""What a mixer's projections give under autocast, and its parameters: x, dt, B and C short, bias, A and D not."""


def results(op, tensors: list[Tensor]) -> list[Tensor]:
    leaves = [t.clone().requires_grad_() for t in tensors]
    y = vmap(op)(*leaves)
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    return [y, *torch.autograd.grad((y * weights).sum(), leaves)]


def errors(
    members: int, batch: int, length: int, channels: int, n: int, dtypes=WIDE, shift: float = 0.0
) -> dict[str, float]:
    """||kernel - definition|| / ||definition|| of the result and of every gradient."""
    torch.manual_seed(length)
    row = (members, batch, length)
    x, dt, B, C = (torch.randn(*row, size) for size in (channels, channels, n, n))
    bias, D = (torch.randn(members, channels) for _ in range(2))
    tensors = [x, dt + shift, bias, -4 * torch.rand(members, channels, n), B, C, D]
    tensors = [t.to(dtype) for t, dtype in zip(tensors, dtypes, strict=True)]
    got = results(selective_scan, tensors)
    expected = results(selective_scan_definition, [t.double() for t in tensors])
    assert [t.dtype for t in got] == [dtypes[0], *dtypes]
    pairs = zip(NAMES, got, expected, strict=True)
    return {name: ((a - b).norm() / b.norm().clamp(min=1e-9)).item() for name, a, b in pairs}


@pytest.mark.parametrize("case", [*CASES, *SHIFTS])
def test_kernels_are_the_recurrence_forward_and_backward(case, measured):
    for name, error in measured[case].items():
        assert error < 1e-4, f"{name} is off by {error}"


def test_each_tensor_comes_in_its_own_dtype_and_its_gradient_too(measured):
    for name, error in measured["short"].items():
        assert error < 2e-3, f"{name} is off by {error}"


def test_kernels_are_for_short_floats_on_gpus_unless_turned_off(monkeypatch):
    pytest.importorskip("triton", reason="the kernels need Triton")
    monkeypatch.delenv("RECOLLECT_TRITON", raising=False)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert not use_kernels(torch.zeros(1))
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert use_kernels(torch.zeros(1))
    assert not use_kernels(torch.zeros(1, dtype=torch.float64))
    monkeypatch.setenv("RECOLLECT_TRITON", "0")
    assert not use_kernels(torch.zeros(1))


if __name__ == "__main__":
    found = {case: errors(*sizes) for case, sizes in CASES.items()}
    found |= {case: errors(1, 2, 9, 5, 3, shift=shift) for case, shift in SHIFTS.items()}
    found["short"] = errors(2, 2, 33, 33, 16, SHORT)
    assert "recollect.ops.triton.selective_scan" in sys.modules, "the plain form was measured"
    json.dump(found, sys.stdout)
