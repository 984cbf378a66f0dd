"""The kernels of linear attention, state-space duality, the delta rules, Mamba and Mamba2, compiled, on a GPU: they are the
recurrences."""

import importlib.util
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
import torch

from recollect.ops.linear_attention import linear_attention
from recollect.ops.ssd import ssd

if not torch.cuda.is_available():
    pytest.skip("compiled kernels need a GPU", allow_module_level=True)
pytest.importorskip("triton", reason="the kernels need Triton")
pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")


def interpreted(op: str) -> ModuleType:
    """The test file that runs the same kernels in Triton's interpreter."""
    path = Path(__file__).parents[1] / "ops" / f"test_triton_{op}.py"
    spec = importlib.util.spec_from_file_location(f"interpreted_{op}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SSD, MAMBAS, LINEAR, DELTA, CHANNELS = (
    interpreted(op) for op in ("ssd", "mamba", "linear_attention", "delta_rule", "channel_delta_rule")
)


def assert_small(errors: dict[str, float], allowed: float) -> None:
    for name, error in errors.items():
        assert error < allowed, f"{name} is off by {error}"


@pytest.mark.parametrize(
    "sizes",
    [
        (3, 4, 64, 2, 1, 64, 64, -0.1), (2, 2, 256, 4, 1, 64, 64, -0.1), (1, 2, 257, 1, 1, 128, 128, -0.1),
        (2, 3, 33, 3, 3, 20, 8, -1.0), (1, 1, 1, 1, 1, 1, 1, -0.1),
    ],
)  # fmt: skip
def test_state_space_duality(sizes):
    assert_small(SSD.errors(*sizes, op=ssd, dtype=torch.bfloat16, device="cuda"), 1e-2)
    assert_small(SSD.errors(*sizes, op=ssd, device="cuda"), 1e-4)
    if max(sizes[5:7]) <= 64:  # in float32 longer ones do not fit
        assert_small(SSD.errors(*sizes, device="cuda"), 1e-4)


@pytest.mark.parametrize(
    "sizes",
    [
        (3, 4, 64, 2, 1, 64, 64, 14, 0.1), (2, 2, 256, 4, 1, 64, 64, 12, 0.1), (1, 2, 257, 1, 1, 64, 128, 1, 0.1),
        (2, 3, 33, 4, 2, 20, 8, 0, 1.0), (2, 2, 130, 4, 2, 32, 16, 4, 1.0), (2, 2, 65, 3, 3, 5, 7, 0, 1.0),
        (1, 1, 1, 2, 1, 2, 1, 0, 0.1),
    ],
)  # fmt: skip
def test_mamba2_between_its_projections(sizes):
    short = {"dtype": torch.bfloat16, "device": "cuda"}
    # Sums that almost vanish lose much by rounding alone.
    allowed = MAMBAS.errors("mamba2", *sizes, op=MAMBAS.rounded_mamba2, **short)
    for name, error in MAMBAS.errors("mamba2", *sizes, **short).items():
        assert error < 1e-2 + 5 * allowed[name], f"{name} is off by {error}, by rounding alone {allowed[name]}"
    if max(sizes[5:7]) <= 64:  # in float32 longer ones do not fit
        assert_small(MAMBAS.errors("mamba2", *sizes, device="cuda"), 1e-4)


@pytest.mark.parametrize(
    "sizes",
    [
        (3, 4, 64, 128, 16, 4, 4, True), (2, 2, 256, 256, 16, 8, 4, True), (2, 3, 33, 40, 16, 3, 4, False),
        (1, 2, 5, 9, 70, 4, 2, True),
    ],
)  # fmt: skip
def test_mamba_between_its_projections(sizes):
    # Its weights are rounded, too.
    assert_small(MAMBAS.errors("mamba", *sizes, dtype=torch.bfloat16, device="cuda"), 3e-2)
    assert_small(MAMBAS.errors("mamba", *sizes, device="cuda"), 1e-4)


def test_mamba2_gives_the_same_bits_each_time():
    tensors, options = MAMBAS.inputs("mamba2", 3, 4, 256, 4, 1, 64, 64, 12, 0.1)
    tensors = [t.cuda() for t in tensors]
    tensors[0] = tensors[0].bfloat16()
    found = [MAMBAS.results(partial(MAMBAS.KERNELS["mamba2"], **options), tensors) for _ in range(2)]
    assert found[0][0].dtype == torch.bfloat16
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize(
    "sizes",
    [
        (3, 4, 1, 64, 64, 64, "elu", True), (2, 2, 1, 256, 128, 128, "elu", True), (2, 2, 2, 200, 64, 33, "relu", True),
        (1, 2, 3, 65, 16, 8, "identity", False), (1, 2, 2, 600, 128, 128, "elu", True), (2, 1, 2, 130, 32, 32, "elu", True),
    ],
)  # fmt: skip
def test_linear_attention(sizes):
    assert_small(LINEAR.errors(*sizes, op=linear_attention, dtype=torch.bfloat16, device="cuda"), 1e-2)
    assert_small(LINEAR.errors(*sizes, op=linear_attention, device="cuda"), 1e-4)


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize(
    "sizes", [(3, 4, 64, 2, 32, 32), (2, 3, 256, 2, 64, 64), (1, 2, 130, 1, 128, 128), (2, 2, 7, 3, 5, 9)]
)
def test_the_delta_rule(sizes, gated):
    tensors = DELTA.inputs(*sizes, gated, device="cuda")
    assert_small(DELTA.errors(tensors), 1e-4)
    assert_small(DELTA.errors([t.bfloat16() for t in tensors]), 1e-2)


@pytest.mark.parametrize("gates", CHANNELS.GATES)
@pytest.mark.parametrize(
    "sizes",
    [
        (3, 4, 64, 2, 32, 32), (2, 3, 256, 2, 64, 64), (1, 2, 130, 1, 128, 128), (2, 2, 7, 3, 5, 9), (1, 2, 1, 1, 16, 16),
        (1, 2, 2, 1, 16, 32), (1, 2, 63, 1, 64, 128), (2, 2, 65, 2, 32, 64), (1, 2, 257, 1, 16, 16),
        (1, 1, 33, 1, 128, 256),
    ],
)  # fmt: skip
def test_the_delta_rule_with_decays_per_channel(sizes, gates):
    q, k, v, *others = CHANNELS.inputs(gates, *sizes, device="cuda")
    assert_small(CHANNELS.errors(gates, [q, k, v, *others]), 1e-4)
    assert_small(CHANNELS.errors(gates, [*(t.bfloat16() for t in (q, k, v)), *others]), 1e-2)


@pytest.mark.parametrize("value", CHANNELS.HARD)
def test_decays_of_any_strength(value):
    assert_small(CHANNELS.errors("beta", CHANNELS.hard_decays(value, device="cuda")), 1e-4)
    tensors = CHANNELS.always_forgotten(value, device="cuda")
    for dtype in (torch.float32, torch.bfloat16):
        found = CHANNELS.results(CHANNELS.rule, [*(t.to(dtype) for t in tensors[:3]), *tensors[3:]])
        assert all(t.isfinite().all() for t in found)
