"""Mamba's op, run by Triton's interpreter: it is what it is defined as.

The interpreter must be asked for before Triton is imported, so a process of its own (this file as a script) computes how
far the op is from the definition, and the tests here judge it.
"""

import json
import sys

import pytest
import torch
from torch import Tensor
from torch.func import vmap

from recollect.ops.mamba import _by_kernels, mamba, mamba_definition

CASES = {  # members, batch, length, inner, n, rank, kernel, gate
    "one of each": (1, 1, 1, 1, 1, 1, 1, True),
    "one of each, no gate": (1, 1, 1, 1, 1, 1, 1, False),
    "two tokens": (2, 2, 2, 5, 3, 2, 4, True),
    "one token more than a part": (1, 2, 5, 12, 4, 9, 3, False),
    "several blocks of channels": (1, 2, 7, 33, 16, 3, 4, True),
    "several blocks, no gate": (2, 1, 7, 40, 16, 3, 4, False),
    "several spans of the convolution": (2, 1, 67, 6, 3, 5, 4, True),
    "nothing to be masked or filled": (2, 1, 16, 64, 16, 8, 4, True),
    "many states": (1, 1, 5, 9, 70, 4, 2, True),
    "members": (3, 2, 9, 5, 3, 1, 4, True),
}
NAMES = ("out", "projected", "taps", "b", "w_x", "w_dt", "b_dt", "A_log", "D")


def inputs(
    members: int, batch: int, length: int, inner: int, n: int, rank: int, kernel: int, gate: bool
) -> list[Tensor]:
    torch.manual_seed(length)
    shapes = (inner, kernel), (inner,), (rank + 2 * n, inner), (inner, rank), (inner,), (inner, n), (inner,)
    taps, b, w_x, w_dt, b_dt, A_log, D = (torch.randn(members, *shape) for shape in shapes)
    projected = torch.randn(members, batch, length, inner * (1 + gate))
    projected[..., 0, -1] = 0  # a gate that is shut altogether
    return [projected, taps, b, inner**-0.5 * w_x, rank**-0.5 * w_dt, b_dt, A_log, D]


def results(op, tensors: list[Tensor]) -> list[Tensor]:
    leaves = [t.detach().requires_grad_() for t in tensors]
    out = vmap(op)(*leaves)
    weights = torch.linspace(-1, 2, out.numel(), dtype=out.dtype, device=out.device).view_as(out)
    return [out, *torch.autograd.grad((out * weights).sum(), leaves)]


def errors(*sizes, op=_by_kernels, dtype: torch.dtype = torch.float32, device: str = "cpu") -> dict[str, float]:
    """||kernel - definition|| / ||definition|| of the result and of every gradient."""
    projected, *own = (t.to(device) for t in inputs(*sizes))
    tensors = [projected.to(dtype), *own]
    got, expected = results(op, tensors), results(mamba_definition, [t.double() for t in tensors])
    assert [t.dtype for t in got] == [dtype, dtype, *[torch.float32] * 7]
    pairs = zip(NAMES, got, expected, strict=True)
    return {name: ((a - b).norm() / b.norm().clamp(min=1e-9)).item() for name, a, b in pairs}


@pytest.mark.parametrize("case", CASES)
def test_the_op_is_its_definition_forward_and_backward(case, measured):
    for name, error in measured[case].items():
        assert error < 1e-4, f"{name} is off by {error}"


@pytest.mark.parametrize("case", ["in bfloat16", "in bfloat16, no gate"])
def test_short_numbers_go_through_the_kernels(case, measured):
    for name, error in measured[case].items():
        assert error < 3e-2, f"{name} is off by {error}"


def test_a_compiled_cohort_gets_the_same(measured):
    assert measured["compiled"] == 0


def compiled() -> float:
    """How far a cohort's numbers are from themselves when the ops around the kernels are traced, shapes and all."""
    found = []
    for gate in (True, False):
        tensors = inputs(2, 1, 9, 12, 4, 3, 4, gate)
        plain, traced = results(_by_kernels, tensors), results(torch.compile(_by_kernels, backend="aot_eager"), tensors)
        found += [(a - b).abs().max().item() for a, b in zip(plain, traced, strict=True)]
    return max(found)


if __name__ == "__main__":
    found: dict = {"in bfloat16": errors(2, 2, 33, 33, 16, 5, 4, True, op=mamba, dtype=torch.bfloat16)}
    assert "recollect.ops.triton.selective_scan" in sys.modules, "the plain form was measured"
    found["in bfloat16, no gate"] = errors(2, 2, 33, 33, 16, 5, 4, False, op=mamba, dtype=torch.bfloat16)
    found |= {case: errors(*sizes) for case, sizes in CASES.items()}
    json.dump(found | {"compiled": compiled()}, sys.stdout)
