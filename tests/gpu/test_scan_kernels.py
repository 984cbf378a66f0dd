"""The kernels of the selective scan, RWKV-4's average and the short convolution, compiled, on a GPU.

They are their definitions, in cohorts too, and give the same bits each time. Times are printed: `pytest -s`.
"""

from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from recollect.mixers.mamba import Mamba
from recollect.mixers.rwkv import RWKV
from recollect.ops.selective_scan import selective_scan, selective_scan_definition, side_by_side
from recollect.ops.short_conv import short_conv, short_conv_definition
from recollect.ops.wkv import wkv, wkv_definition

if not torch.cuda.is_available():
    pytest.skip("compiled kernels need a GPU", allow_module_level=True)
pytest.importorskip("triton", reason="the kernels need Triton")
pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")


@pytest.fixture(autouse=True)
def kernels_on(monkeypatch):
    monkeypatch.delenv("RECOLLECT_TRITON", raising=False)


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, device="cuda")


def scan_inputs(members: int, batch: int, length: int, channels: int, n: int) -> list[Tensor]:
    row = (members, batch, length)
    rates = random(members, channels, n).abs()
    x, dt, B, C = random(*row, channels), random(*row, channels), random(*row, n), random(*row, n)
    return [x, dt, random(members, channels) - 2, -2 * rates, B, C, random(members, channels)]


def wkv_inputs(members: int, batch: int, length: int, channels: int) -> list[Tensor]:
    row = (members, batch, length, channels)
    return [random(members, channels).abs(), random(members, channels), random(*row), random(*row)]


def conv_inputs(members: int, batch: int, length: int, channels: int, kernel: int) -> list[Tensor]:
    return [random(members, batch, length, channels), random(members, channels, kernel)]


def biased_conv_inputs(members: int, batch: int, length: int, channels: int, kernel: int) -> list[Tensor]:
    return [*conv_inputs(members, batch, length, channels, kernel), random(members, channels)]


CASES = [
    *(
        (selective_scan, selective_scan_definition, scan_inputs, sizes)
        for sizes in [
            (1, 1, 1, 1, 1), (2, 3, 2, 5, 3), (1, 2, 7, 33, 16), (3, 5, 65, 33, 3), (2, 3, 131, 128, 16), (2, 4, 33, 70, 64)
        ]
    ),
    *(
        (wkv, wkv_definition, wkv_inputs, sizes)
        for sizes in [(1, 1, 1, 1), (2, 3, 2, 5), (1, 2, 7, 33), (3, 5, 65, 130), (2, 3, 257, 64)]
    ),
    *(
        (partial(short_conv, activation=kind), partial(short_conv_definition, activation=kind), inputs, sizes)
        for sizes in [(1, 1, 1, 1, 1), (2, 3, 2, 5, 4), (1, 2, 7, 33, 3), (3, 5, 65, 130, 4), (2, 3, 257, 64, 4)]
        for kind in ("none", "silu")
        for inputs in (conv_inputs, biased_conv_inputs)
    ),
]  # fmt: skip


def results(op, tensors: list[Tensor]) -> list[Tensor]:
    """The output for all members and the gradients of a loss that weighs every number of it differently."""
    leaves = [t.clone().requires_grad_() for t in tensors]
    y = vmap(op)(*leaves)
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype, device=y.device).view_as(y)
    return [y, *torch.autograd.grad((y * weights).sum(), leaves, allow_unused=True, materialize_grads=True)]


def error(got: Tensor, expected: Tensor) -> float:
    return ((got.double() - expected).norm() / expected.norm().clamp(min=1e-3)).item()


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-4), (torch.bfloat16, 1e-2)])
@pytest.mark.parametrize(("op", "definition", "inputs", "sizes"), CASES)
def test_kernels_are_the_definition(op, definition, inputs, sizes, dtype, bound):
    torch.manual_seed(0)
    tensors = [t.to(dtype) for t in inputs(*sizes)]
    expected = results(definition, [t.double() for t in tensors])
    for i, (a, b) in enumerate(zip(results(op, tensors), expected, strict=True)):
        assert a.dtype == dtype
        assert error(a, b) < bound, f"{'the output' if i == 0 else f'gradient {i - 1}'} is off by {error(a, b)}"


@pytest.mark.parametrize(("op", "definition", "inputs", "sizes"), CASES)
def test_kernels_give_the_same_bits_each_time(op, definition, inputs, sizes):
    tensors = inputs(*sizes)
    for a, b in zip(results(op, tensors), results(op, tensors), strict=True):
        assert torch.equal(a, b)


def test_a_bias_that_autocast_does_not_see_leaves_the_result_short():
    x, w, b = biased_conv_inputs(2, 3, 9, 5, 4)
    with torch.autocast("cuda", torch.bfloat16):
        y = vmap(short_conv)(x, w, b)
    assert y.dtype == torch.bfloat16


def cohort_results(modules: list[nn.Module], x: Tensor) -> dict[str, Tensor]:
    """Output and gradients of a cohort, as training takes them: vmap the forward, differentiate outside."""
    names = [name for name, _ in modules[0].named_parameters()]
    stacked = {n: torch.stack([m.get_parameter(n).detach() for m in modules]).requires_grad_() for n in names}
    y = vmap(lambda parameters, rows: functional_call(modules[0], parameters, rows))(stacked, x)
    gradients = torch.autograd.grad(y.square().sum(), list(stacked.values()))
    return {"y": y, **dict(zip(names, gradients, strict=True))}


@pytest.mark.parametrize(
    "build", [lambda: Mamba(32), lambda: RWKV(48, layer=0, layers=2)], ids=["mamba", "rwkv"]
)  # fmt: skip
def test_a_cohort_learns_the_same_with_and_without_kernels(build, monkeypatch):
    torch.manual_seed(0)
    modules = [build().cuda() for _ in range(3)]
    x = random(3, 4, 37, next(modules[0].parameters()).shape[-1])
    on = cohort_results(modules, x)
    monkeypatch.setenv("RECOLLECT_TRITON", "0")
    off = cohort_results(modules, x)
    for name, expected in off.items():
        assert error(on[name], expected.double()) < 1e-4, name


@pytest.mark.filterwarnings("ignore")  # the compiler's own
@pytest.mark.parametrize("build", [lambda: Mamba(32), lambda: RWKV(32, layer=0, layers=2)], ids=["mamba", "rwkv"])
def test_a_compiled_cohort_is_the_eager_one(build):
    torch.manual_seed(0)
    modules, x = [build().cuda() for _ in range(3)], random(3, 4, 37, 32)
    stacked = {n: torch.stack([m.get_parameter(n).detach() for m in modules]) for n, _ in modules[0].named_parameters()}

    def forward(parameters: dict[str, Tensor]) -> Tensor:
        return vmap(lambda one, rows: functional_call(modules[0], one, rows))(parameters, x)

    found = []
    for run in (torch.compile(forward, dynamic=False), forward):
        leaves = {name: t.clone().requires_grad_() for name, t in stacked.items()}
        y = run(leaves)
        found.append([y, *torch.autograd.grad(y.square().sum(), list(leaves.values()))])
    for a, b in zip(*found, strict=True):
        assert error(a, b.double()) < 1e-4


def milliseconds(work, repeats: int = 10) -> float:
    work()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(repeats):
        work()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / repeats


@pytest.mark.parametrize(
    ("op", "inputs", "sizes"),
    [
        ("selective_scan_kernel", scan_inputs, (36, 512, 64, 128, 16)),
        ("wkv", wkv_inputs, (36, 512, 64, 128)),
        ("short_conv_kernel", conv_inputs, (36, 512, 64, 128, 4)),
        ("short_conv_kernel", conv_inputs, (36, 512, 64, 128, 5)),  # four taps and the bias
    ],
)
def test_times_of_a_cohort_of_36(op, inputs, sizes):
    tensors: list = inputs(*sizes)
    if op == "selective_scan_kernel":
        x, dt, bias, A, B, C, D = tensors
        BC = torch.cat([B, C], dim=-1)
        tensors = [x.bfloat16(), dt.bfloat16(), side_by_side(bias, A, D), BC.bfloat16()]  # as under autocast
    elif op == "wkv":
        tensors[2:] = [t.flatten(0, 1) for t in tensors[2:]]
    else:
        tensors += ["silu", True] if sizes[-1] == 5 else ["none", False]
    forward, backward = (getattr(torch.ops.recollect, name) for name in (op, f"{op}_backward"))
    outputs = forward(*tensors)
    kept = outputs if op == "selective_scan_kernel" else ()
    grad = torch.randn_like(outputs[0])
    print(f"\n{op} {sizes}: forward {milliseconds(lambda: forward(*tensors)):.2f} ms", end=", ")
    print(f"backward {milliseconds(lambda: backward(grad, *tensors, *kept)):.2f} ms")
    assert all(t.isfinite().all() for t in (*outputs, *backward(grad, *tensors, *kept)))
