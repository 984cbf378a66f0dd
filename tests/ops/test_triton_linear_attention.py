"""Linear attention's kernels, run by Triton's interpreter: they are the recurrence, for every feature map they serve.

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

from recollect.ops.linear_attention import Feature, _op, linear_attention, linear_attention_definition

CASES = {  # members, batch, heads, length, dim, dim_v, feature, normalise
    "one of each": (1, 1, 1, 1, 1, 1, "elu", False),
    "a short row": (1, 2, 2, 7, 3, 8, "elu", True),
    "relu": (1, 1, 3, 33, 20, 3, "relu", True),
    "identity": (1, 1, 1, 33, 8, 8, "identity", False),
    "members": (3, 2, 1, 16, 8, 8, "elu", False),
    "a chunk and one token": (1, 1, 1, 65, 8, 3, "elu", True),
    "chunks, heads and members": (2, 1, 2, 130, 8, 20, "elu", True),
    "chunks of relu": (1, 2, 1, 70, 8, 8, "relu", True),
    "chunks of identity": (1, 1, 2, 130, 3, 8, "identity", False),
    "pairs, heads and members": (2, 1, 2, 130, 20, 33, "elu", True),
    "pairs of relu": (1, 2, 1, 70, 20, 8, "relu", True),
    "pairs of identity": (1, 1, 2, 129, 33, 40, "identity", False),
}
NAMES = ("y", "q", "k", "v")


def inputs(members: int, batch: int, heads: int, length: int, dim: int, dim_v: int) -> list[Tensor]:
    """q, k and v with time before heads in memory, as projections leave them."""
    torch.manual_seed(length)
    row = (members, batch, length, heads)
    return [torch.randn(*row, size).transpose(2, 3) for size in (dim, dim, dim_v)]


def results(op, tensors: list[Tensor]) -> list[Tensor]:
    leaves = [t.detach().requires_grad_() for t in tensors]
    y = vmap(op)(*leaves)
    weights = torch.linspace(-1, 1, y.numel(), device=y.device).bfloat16().to(y.dtype).view_as(y)
    return [y, *torch.autograd.grad((y * weights).sum(), leaves)]


def kernel(q: Tensor, k: Tensor, v: Tensor, feature: Feature = "elu", normalise: bool = True) -> Tensor:
    return _op(*(x.transpose(1, 2) for x in (q, k, v)), feature, normalise)[0].transpose(1, 2)


def errors(*sizes, op=kernel, dtype: torch.dtype = torch.float32, device: str = "cpu") -> dict[str, float]:
    """||kernel - definition|| / ||definition|| of the result and of every gradient."""
    *shape, feature, normalise = sizes
    tensors = [t.to(device, dtype) for t in inputs(*shape)]
    got = results(lambda q, k, v: op(q, k, v, feature, normalise), tensors)
    exact = [t.double() for t in tensors]
    expected = results(lambda q, k, v: linear_attention_definition(q, k, v, feature, normalise), exact)
    assert all(t.dtype == dtype for t in got)
    pairs = zip(NAMES, got, expected, strict=True)
    return {name: ((a - b).norm() / b.norm().clamp(min=1e-9)).item() for name, a, b in pairs}


@pytest.mark.parametrize("case", CASES)
def test_kernels_are_the_recurrence_forward_and_backward(case, measured):
    for name, error in measured[case].items():
        assert error < 1e-4, f"{name} is off by {error}"


def test_16_bit_numbers_go_through_the_kernels(measured):
    for name, error in measured["in float16"].items():
        assert error < 1e-3, f"{name} is off by {error}"


def test_finite_where_the_divisor_vanishes_or_is_large(measured):
    assert measured["extremes"] == {"elu": True, "relu": True, "identity": True}


def test_a_compiled_cohort_gets_the_same(measured):
    assert measured["compiled"]["y"] == 0


def extremes() -> dict[str, bool]:
    """Whether y and its gradients are finite for tiny and for huge features, whatever the sign of their sums."""
    maps: tuple[Feature, ...] = ("elu", "relu", "identity")
    finite = {}
    for feature in maps:
        by_chunks_and_pairs = [inputs(1, 1, 1, 70, dim, 4) for dim in (4, 20)]
        scaled = [[a * q, abs(a) * k, v] for q, k, v in by_chunks_and_pairs for a in (0.0, 1e-20, 1e4, -1e4)]
        found = [t for tensors in scaled for t in results(partial(kernel, feature=feature), tensors)]
        finite[feature] = all(t.isfinite().all().item() for t in found)
    return finite


def compiled() -> dict[str, float]:
    """How far a cohort's numbers are from themselves when the ops around the kernel are traced, shapes and all."""
    tensors = inputs(2, 1, 2, 65, 4, 4)
    plain, traced = (
        results(op, tensors) for op in (linear_attention, torch.compile(linear_attention, backend="aot_eager"))
    )
    return {"y": max((a - b).abs().max().item() for a, b in zip(plain, traced, strict=True))}


if __name__ == "__main__":
    short = errors(*CASES["chunks, heads and members"], op=linear_attention, dtype=torch.float16)
    assert "recollect.ops.triton.linear_attention" in sys.modules, "the plain form was measured"
    found = {"in float16": short, **{case: errors(*sizes) for case, sizes in CASES.items()}}
    found |= {"extremes": extremes(), "compiled": compiled()}
    json.dump(found, sys.stdout)
