"""Mamba2's op, run by Triton's interpreter: it is what it is defined as.

The interpreter must be asked for before Triton is imported, so a process of its own (this file as a script) computes how
far the op is from the definition, and the tests here judge it.
"""

import json
import sys
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import vmap

from recollect.ops.mamba2 import EPS, _by_kernels, _parts, mamba2, mamba2_definition, unpacked
from recollect.ops.short_conv import short_conv_definition
from recollect.ops.ssd import ssd_definition

CASES = {  # members, batch, length, heads, groups, p, n, columns that are not read, the largest A
    "one token": (1, 1, 1, 2, 1, 2, 1, 0, 1.0),
    "one chunk, one group": (2, 2, 33, 3, 1, 5, 3, 1, 1.0),
    "one chunk, two groups": (1, 2, 64, 4, 2, 8, 20, 3, 1.0),
    "one chunk, a group a head": (3, 1, 7, 3, 3, 3, 8, 0, 1.0),
    "a chunk and one token": (2, 2, 65, 2, 1, 20, 7, 5, 0.1),
    "chunks, two groups": (2, 1, 130, 4, 2, 3, 5, 0, 0.1),
    "chunks, a group a head": (2, 1, 130, 2, 2, 8, 8, 7, 0.1),
    "chunks, nothing to be masked": (2, 1, 128, 2, 1, 16, 16, 0, 0.1),
    "total decays": (1, 1, 70, 2, 1, 3, 8, 1, 1e30),
    "more heads than a program takes": (1, 1, 70, 10, 1, 3, 5, 0, 0.1),
}
NAMES = ("out", "projected", "taps", "b", "b_dt", "A_log", "D", "w")


def inputs(
    members: int, batch: int, length: int, heads: int, groups: int, p: int, n: int, more: int, largest: float
) -> list[Tensor]:
    torch.manual_seed(length)
    inner, channels = heads * p, heads * p + 2 * groups * n
    projected = torch.randn(members, batch, length, inner + channels + heads + more)
    A_log = (largest * torch.linspace(0.1, 1, heads)).log().expand(members, heads)
    shapes = (channels, 4), (channels,), (heads,), (heads,), (inner,)
    taps, b, b_dt, D, w = (torch.randn(members, *shape) for shape in shapes)
    return [projected, taps, b, b_dt, A_log, D, w]


def rounded(projected: Tensor, *own: Tensor, groups: int) -> Tensor:
    """The definition, exact but for what it gives from stage to stage, and the gradients of that: they are bfloat16's."""
    taps, b, b_dt, A_log, D, w = (t.double() for t in own)
    z, xBC, dt = _parts(projected.double(), len(w), len(taps), len(D))
    dt = F.softplus(dt + b_dt)
    xBC = short_conv_definition(xBC, taps, b, "silu").bfloat16().double()
    x, B, C = unpacked(xBC, len(w), len(D), groups)
    y = ssd_definition(x * dt[..., None], -A_log.exp() * dt, B, C) + D[:, None] * x
    return F.rms_norm(y.bfloat16().double().flatten(-2) * F.silu(z), w.shape, w, EPS).bfloat16()


def results(op, tensors: list[Tensor]) -> list[Tensor]:
    leaves = [t.detach().requires_grad_() for t in tensors]
    out = vmap(op)(*leaves)
    weights = torch.linspace(-1, 2, out.numel(), dtype=out.dtype, device=out.device).view_as(out)
    return [out, *torch.autograd.grad((out * weights).sum(), leaves)]


def errors(*sizes, op=_by_kernels, dtype: torch.dtype = torch.float32, device: str = "cpu") -> dict[str, float]:
    """||kernel - definition|| / ||definition|| of the result and of every gradient."""
    projected, *own = (t.to(device) for t in inputs(*sizes))
    tensors, groups = [projected.to(dtype), *own], sizes[4]
    got = results(partial(op, groups=groups), tensors)
    expected = results(partial(mamba2_definition, groups=groups), [t.double() for t in tensors])
    assert [t.dtype for t in got] == [dtype, dtype, *[torch.float32] * 6]
    pairs = zip(NAMES, got, expected, strict=True)
    return {name: ((a - b).norm() / b.norm().clamp(min=1e-9)).item() for name, a, b in pairs}


@pytest.mark.parametrize("case", CASES)
def test_the_op_is_its_definition_forward_and_backward(case, measured):
    for name, error in measured[case].items():
        assert error < 1e-4, f"{name} is off by {error}"


def test_short_numbers_go_through_the_kernels(measured):
    for name, error in measured["in float16"].items():
        assert error < 5e-3, f"{name} is off by {error}"


def test_a_compiled_cohort_gets_the_same(measured):
    assert measured["compiled"] == 0


def compiled() -> float:
    """How far a cohort's numbers are from themselves when the ops around the kernels are traced, shapes and all."""
    tensors, op = inputs(2, 1, 65, 2, 1, 4, 4, 2, 1.0), partial(_by_kernels, groups=1)
    plain, traced = results(op, tensors), results(torch.compile(op, backend="aot_eager"), tensors)
    return max((a - b).abs().max().item() for a, b in zip(plain, traced, strict=True))


if __name__ == "__main__":
    found: dict = {"in float16": errors(*CASES["chunks, two groups"], op=mamba2, dtype=torch.float16)}
    assert "recollect.ops.triton.ssd" in sys.modules, "the plain form was measured"
    found |= {case: errors(*sizes) for case, sizes in CASES.items()}
    json.dump(found | {"compiled": compiled()}, sys.stdout)
