"""The ops of Mamba and Mamba2, run by Triton's interpreter: they are what they are defined as.

The interpreter must be asked for before Triton is imported, so a process of its own (this file as a script) computes how
far the ops are from their definitions, and the tests here judge it.
"""

import json
import sys
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import vmap

from recollect.mixers.mamba import Mamba
from recollect.mixers.mamba2 import Mamba2
from recollect.ops import mamba as one
from recollect.ops import mamba2 as two
from recollect.ops.selective_scan import selective_scan_definition
from recollect.ops.short_conv import short_conv_definition
from recollect.ops.ssd import ssd_definition

MAMBA = {  # members, batch, length, inner, n, rank, kernel, gate
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
MAMBA2 = {  # members, batch, length, heads, groups, p, n, columns that are not read, the largest A
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
CASES = [("mamba", case) for case in MAMBA] + [("mamba2", case) for case in MAMBA2]
NAMES = {
    "mamba": ("out", "projected", "taps", "b", "w_x", "w_dt", "b_dt", "A_log", "D"),
    "mamba2": ("out", "projected", "taps", "b", "b_dt", "A_log", "D", "w"),
}
KERNELS = {"mamba": one._by_kernels, "mamba2": two._by_kernels}


def mamba_inputs(
    members: int, batch: int, length: int, inner: int, n: int, rank: int, kernel: int, gate: bool
) -> tuple[list[Tensor], dict]:
    shapes = (inner, kernel), (inner,), (rank + 2 * n, inner), (inner, rank), (inner,), (inner, n), (inner,)
    taps, b, w_x, w_dt, b_dt, A_log, D = (torch.randn(members, *shape) for shape in shapes)
    projected = torch.randn(members, batch, length, inner * (1 + gate))
    projected[..., 0, -1] = 0  # a gate that is shut altogether
    return [projected, taps, b, inner**-0.5 * w_x, rank**-0.5 * w_dt, b_dt, A_log, D], {}


def mamba2_inputs(
    members: int, batch: int, length: int, heads: int, groups: int, p: int, n: int, more: int, largest: float
) -> tuple[list[Tensor], dict]:
    inner, channels = heads * p, heads * p + 2 * groups * n
    projected = torch.randn(members, batch, length, inner + channels + heads + more)
    A_log = (largest * torch.linspace(0.1, 1, heads)).log().expand(members, heads)
    shapes = (channels, 4), (channels,), (heads,), (heads,), (inner,)
    taps, b, b_dt, D, w = (torch.randn(members, *shape) for shape in shapes)
    return [projected, taps, b, b_dt, A_log, D, w], {"groups": groups}


def inputs(kind: str, *sizes) -> tuple[list[Tensor], dict]:
    """The tensors of a cohort, and the other arguments of an op."""
    torch.manual_seed(sizes[2])
    return (mamba_inputs if kind == "mamba" else mamba2_inputs)(*sizes)


def mamba_definition(
    projected: Tensor, taps: Tensor, b: Tensor, w_x: Tensor, w_dt: Tensor, b_dt: Tensor, A_log: Tensor, D: Tensor
) -> Tensor:
    u, *z = projected.split(len(D), dim=-1)
    u = short_conv_definition(u, taps, b, "silu")
    rank, n = w_dt.shape[1], A_log.shape[1]
    low, B, C = F.linear(u, w_x).split([rank, n, n], dim=-1)
    y = selective_scan_definition(u, F.linear(low, w_dt), b_dt, -A_log.exp(), B, C, D)
    return y * F.silu(z[0]) if z else y


def mamba2_definition(projected: Tensor, *own: Tensor, groups: int, rounded=lambda t: t) -> Tensor:
    taps, b, b_dt, A_log, D, w = own
    inner, channels = len(w), len(taps)
    z, xBC, dt = projected[..., : inner + channels + len(D)].split([inner, channels, len(D)], dim=-1)
    dt = F.softplus(dt + b_dt)
    x, B, C = two.unpacked(rounded(short_conv_definition(xBC, taps, b, "silu")), inner, len(D), groups)
    y = rounded(ssd_definition(x * dt[..., None], -A_log.exp() * dt, B, C) + D[:, None] * x)
    g = (y.flatten(-2) * F.silu(z)).unflatten(-1, (groups, -1))
    return F.rms_norm(g, g.shape[-1:], eps=two.EPS).flatten(-2) * w


def rounded_mamba2(projected: Tensor, *own: Tensor, groups: int) -> Tensor:
    """The definition, exact but for what it gives from stage to stage, and the gradients of that: they are bfloat16's."""
    exact = (t.double() for t in (projected, *own))
    return mamba2_definition(*exact, groups=groups, rounded=lambda t: t.bfloat16().double()).bfloat16()


DEFINITIONS = {"mamba": mamba_definition, "mamba2": mamba2_definition}


def results(op, tensors: list[Tensor]) -> list[Tensor]:
    leaves = [t.detach().requires_grad_() for t in tensors]
    out = vmap(op)(*leaves)
    weights = torch.linspace(-1, 2, out.numel(), device=out.device).bfloat16().to(out.dtype).view_as(out)
    return [out, *torch.autograd.grad((out * weights).sum(), leaves)]


def errors(
    kind: str, *sizes, op=None, dtype: torch.dtype = torch.float32, device: str = "cpu"
) -> dict[str, float]:  # fmt: skip
    """||kernels - definition|| / ||definition|| of the result and of every gradient."""
    (projected, *own), options = inputs(kind, *sizes)
    tensors = [projected.to(device, dtype), *(t.to(device) for t in own)]
    got = results(partial(op or KERNELS[kind], **options), tensors)
    expected = results(partial(DEFINITIONS[kind], **options), [t.double() for t in tensors])
    assert [t.dtype for t in got] == [dtype, dtype, *[torch.float32] * len(own)]
    pairs = zip(NAMES[kind], got, expected, strict=True)
    return {name: ((a - b).norm() / b.norm().clamp(min=1e-9)).item() for name, a, b in pairs}


@pytest.mark.parametrize(("kind", "case"), CASES)
def test_ops_are_their_definitions_forward_and_backward(kind, case, measured):
    for name, error in measured[kind][case].items():
        assert error < 1e-4, f"{name} is off by {error}"


@pytest.mark.parametrize(
    ("kind", "case", "allowed"),
    [("mamba", "in bfloat16", 3e-2), ("mamba", "in bfloat16, no gate", 3e-2), ("mamba2", "in float16", 5e-3)],
)
def test_16_bit_numbers_lose_little(kind, case, allowed, measured):
    for name, error in measured[kind][case].items():
        assert error < allowed, f"{name} is off by {error}"


@pytest.mark.parametrize("kind", ["mamba", "mamba2"])
def test_a_mixer_goes_through_its_op_in_16_bits_unless_hooks_listen(kind, measured):
    found = measured["mixers"][kind]
    assert found["in one op"] == {"16-bit": True, "float32": False, "with a hook": False}
    assert found["error"] < 3e-2


def test_a_compiled_cohort_gets_the_same(measured):
    assert measured["compiled"] == {"mamba": 0, "mamba, no gate": 0, "mamba2": 0, "mamba2, two groups": 0}


def compiled(kind: str, *sizes) -> float:
    """How far a cohort's numbers are from themselves when the ops around the kernels are traced, shapes and all."""
    tensors, options = inputs(kind, *sizes)
    op = partial(KERNELS[kind], **options)
    plain, traced = results(op, tensors), results(torch.compile(op, backend="aot_eager"), tensors)
    return max((a - b).abs().max().item() for a, b in zip(plain, traced, strict=True))


def in_one_op(kind: str, mixer: Mamba | Mamba2, x: Tensor) -> bool:
    """Whether calling the mixer runs its op."""
    with torch.profiler.profile() as seen:
        mixer(x)
    return any(event.key == f"recollect::{kind}" for event in seen.key_averages())


def through_the_mixer(kind: str) -> dict:
    """Which calls of a mixer run its op, and how far the op is from the mixer part by part in float64."""
    torch.manual_seed(0)
    mixer, half = Mamba(16, state=4), torch.bfloat16
    if kind == "mamba2":
        mixer, half = Mamba2(16, state=4, head_dim=8), torch.float16  # the interpreter's products in bfloat16 are wrong
    x = torch.randn(2, 9, 16)
    expected = mixer.double()(x.double())
    error = ((mixer.to(half)(x.to(half)) - expected).norm() / expected.norm()).item()
    ran = {"16-bit": in_one_op(kind, mixer, x.to(half)), "float32": in_one_op(kind, mixer.float(), x)}
    assert mixer.conv is not None
    mixer.to(half).conv.register_forward_hook(lambda *_: None)
    return {"in one op": ran | {"with a hook": in_one_op(kind, mixer, x.to(half))}, "error": error}


if __name__ == "__main__":
    found: dict = {
        "mamba": {
            "in bfloat16": errors("mamba", 2, 2, 33, 33, 16, 5, 4, True, dtype=torch.bfloat16),
            "in bfloat16, no gate": errors("mamba", 2, 2, 33, 33, 16, 5, 4, False, dtype=torch.bfloat16),
        },
        "mamba2": {
            "in float16": errors("mamba2", *MAMBA2["chunks, two groups"], dtype=torch.float16),
        },
    }
    for kernels in ("selective_scan", "ssd"):
        assert f"recollect.ops.triton.{kernels}" in sys.modules, "the plain form was measured"
    found["mamba"] |= {case: errors("mamba", *sizes) for case, sizes in MAMBA.items()}
    found["mamba2"] |= {case: errors("mamba2", *sizes) for case, sizes in MAMBA2.items()}
    found["mixers"] = {kind: through_the_mixer(kind) for kind in ("mamba", "mamba2")}
    found["compiled"] = {
        "mamba": compiled("mamba", 2, 1, 9, 12, 4, 3, 4, True),
        "mamba, no gate": compiled("mamba", 2, 1, 9, 12, 4, 3, 4, False),
        "mamba2": compiled("mamba2", 2, 1, 65, 2, 1, 4, 4, 2, 1.0),
        "mamba2, two groups": compiled("mamba2", 2, 1, 33, 2, 2, 4, 4, 2, 1.0),
    }
    json.dump(found, sys.stdout)
