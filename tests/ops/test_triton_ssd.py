"""State-space duality's kernels, run by Triton's interpreter: they are the recurrence.

The interpreter must be asked for before Triton is imported, so a process of its own (this file as a script) computes how
far the kernels are from the definition, and the tests here judge it.
"""

import json
import sys

import pytest
import torch
from torch import Tensor
from torch.func import vmap

from recollect.ops.ssd import _ssd, ssd, ssd_definition

CASES = {  # members, batch, length, heads, of them with B and C of their own, p, n, log_a of the strongest decay
    "one of each": (1, 1, 1, 1, 1, 1, 1, -1.0),
    "heads that share B and C": (1, 2, 7, 3, 1, 8, 3, -1.0),
    "heads with their own B and C": (1, 2, 33, 3, 3, 3, 20, -1.0),
    "members": (3, 2, 16, 2, 1, 8, 8, -1.0),
    "a chunk and one token": (1, 1, 65, 2, 2, 8, 3, -0.1),
    "chunks of heads that share, and members": (2, 1, 130, 2, 1, 20, 8, -0.1),
    "strong decays": (1, 1, 130, 2, 1, 3, 8, -20.0),
    "total decays": (1, 1, 70, 2, 1, 3, 8, -1e30),
    "decays of nothing": (1, 1, 70, 1, 1, 3, 8, -float("inf")),
}
NAMES = ("y", "x", "log_a", "B", "C")


def inputs(
    members: int, batch: int, length: int, heads: int, own: int, p: int, n: int, strongest: float
) -> list[Tensor]:
    """x, log_a, B and C; the last two lie side by side, as a projection leaves them, and log_a has weak decays too."""
    torch.manual_seed(length)
    row = (members, batch, length)
    x, strength = torch.randn(*row, heads, p), torch.rand(*row, heads)
    log_a = torch.where(strength < 0.5, -0.1 * strength, strongest * (strength + 0.5))
    B, C = torch.randn(*row, 2 * own * n).unflatten(-1, (2, own, n)).unbind(-3)
    return [x, log_a, B, C]


def results(op, tensors: list[Tensor]) -> list[Tensor]:
    leaves = [t.detach().requires_grad_() for t in tensors]
    y = vmap(op)(*leaves)
    weights = torch.linspace(-1, 1, y.numel(), device=y.device).bfloat16().to(y.dtype).view_as(y)
    return [y, *torch.autograd.grad((y * weights).sum(), leaves)]


def kernel(x: Tensor, log_a: Tensor, B: Tensor, C: Tensor) -> Tensor:
    return _ssd(x, log_a, B, C)[0]


def errors(*sizes, op=kernel, dtype: torch.dtype = torch.float32, device: str = "cpu") -> dict[str, float]:
    """||kernel - definition|| / ||definition|| of the result and of every gradient."""
    x, log_a, B, C = (t.to(device) for t in inputs(*sizes))
    tensors = [x.to(dtype), log_a, B.to(dtype), C.to(dtype)]
    got, expected = results(op, tensors), results(ssd_definition, [t.double() for t in tensors])
    assert [t.dtype for t in got] == [dtype, dtype, torch.float32, dtype, dtype]
    pairs = zip(NAMES, got, expected, strict=True)
    return {name: ((a - b).norm() / b.norm().clamp(min=1e-9)).item() for name, a, b in pairs}


@pytest.mark.parametrize("case", CASES)
def test_kernels_are_the_recurrence_forward_and_backward(case, measured):
    for name, error in measured[case].items():
        assert error < 1e-4, f"{name} is off by {error}"


def test_16_bit_numbers_go_through_the_kernels(measured):
    for name, error in measured["in float16"].items():
        assert error < 1e-3, f"{name} is off by {error}"


def test_small_decays_survive_behind_a_large_one(measured):
    assert measured["behind a large decay"]["y"] < 1e-5


def test_a_compiled_cohort_gets_the_same(measured):
    assert measured["compiled"] == 0


def behind_a_large_decay() -> dict[str, float]:
    """How exact weak decays are after one that forgets all."""
    x, log_a, B, C = (t[0] for t in inputs(1, 1, 60, 1, 1, 4, 4, -1.0))
    log_a = -1e-3 * torch.rand_like(log_a)
    log_a[:, 5] = -1e6
    y, exact = kernel(x, log_a, B, C), ssd_definition(*(t.double() for t in (x, log_a, B, C)))
    return {"y": ((y - exact).norm() / exact.norm()).item()}


def compiled() -> float:
    """How far a cohort's numbers are from themselves when the ops around the kernel are traced, shapes and all."""
    tensors = inputs(2, 1, 65, 2, 1, 4, 4, -1.0)
    plain, traced = results(kernel, tensors), results(torch.compile(kernel, backend="aot_eager"), tensors)
    return max((a - b).abs().max().item() for a, b in zip(plain, traced, strict=True))


if __name__ == "__main__":
    found: dict = {"in float16": errors(*CASES["chunks of heads that share, and members"], op=ssd, dtype=torch.float16)}
    assert "recollect.ops.triton.ssd" in sys.modules, "the plain form was measured"
    found |= {case: errors(*sizes) for case, sizes in CASES.items()}
    found |= {"behind a large decay": behind_a_large_decay(), "compiled": compiled()}
    json.dump(found, sys.stdout)
