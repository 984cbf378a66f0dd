"""Whether the installed kernels are correct on this machine, and how fast they are.

Each form of an op computes its result and its gradients, which are compared with those of the op's definition in float64.
"""

import importlib.util
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module, metadata
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from recollect.bench.timing import seconds_per_call
from recollect.ops import external
from recollect.ops.attention import attention, attention_definition
from recollect.ops.channel_delta_rule import channel_delta_rule_definition, kda
from recollect.ops.delta_rule import delta_rule, delta_rule_definition
from recollect.ops.gated_linear_attention import gated_linear_attention, gated_linear_attention_definition
from recollect.ops.linear_attention import linear_attention, linear_attention_definition
from recollect.ops.selective_scan import selective_scan, selective_scan_definition
from recollect.ops.short_conv import short_conv, short_conv_definition
from recollect.ops.ssd import ssd, ssd_definition
from recollect.ops.wkv import wkv, wkv_definition

ALLOWED = {torch.bfloat16: external.TOLERANCE, torch.float32: 1e-4}
"""The largest relative error of a correct kernel, ||difference|| / ||definition||, by the precision it computes in."""
PYTORCH, TRITON, FLA, MAMBA = "recollect, PyTorch", "recollect, Triton", "fla", "mamba-ssm"
"""The libraries that implement an op; fla is flash-linear-attention."""


@dataclass(frozen=True)
class Size:
    """The sizes of the inputs: rows of `length` tokens, heads of `dim` channels."""

    rows: int = 8
    length: int = 256
    heads: int = 2
    dim: int = 64


@dataclass(frozen=True)
class Checked:
    """One implementation of an op, as measured here."""

    op: str
    form: str
    version: str
    verdict: Literal["right", "wrong", "fails", "not here"]
    output: float = float("nan")
    """Relative error of the result."""
    gradients: float = float("nan")
    """The largest relative error of a gradient."""
    ms: float = float("nan")
    """Milliseconds of a forward and a backward pass."""
    note: str = ""


@dataclass(frozen=True)
class Case:
    """An op: its inputs, its definition, our form, and mamba-ssm's where it has one. `wide`: the names of inputs that stay in
    float32."""

    inputs: Callable[[Size], list[Tensor]]
    definition: Callable[..., Tensor]
    ours: Callable[..., Tensor]
    wide: tuple[int, ...] = ()
    triton: bool = True
    heads_first: bool = True
    mamba: Callable[..., Tensor] | None = None


def check(op: str, device: torch.device, size: Size) -> Iterator[Checked]:
    """Every implementation of an op on a device, correct or not, in 16-bit precision on a GPU and in float32 on a CPU."""
    case = CASES[op]
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    torch.manual_seed(0)
    tensors = [t if i in case.wide else t.to(dtype) for i, t in enumerate(x.to(device) for x in case.inputs(size))]
    y = case.definition(*(t.double() for t in tensors))
    direction = torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).to(device)
    expected = _results(case.definition, [t.double() for t in tensors], direction)
    for form, version, reason, run in _forms(op, case, tensors, direction):
        if reason:
            yield Checked(op, form, version, "not here", note=reason)
            continue
        try:
            output, *gradients = [_error(a, b) for a, b in zip(run(), expected, strict=True)]
            seconds = seconds_per_call(run, device)
        except Exception as error:  # of any kind: it is the result
            yield Checked(op, form, version, "fails", note=f"{type(error).__name__}: {error}".splitlines()[0])
            continue
        right = all(off < ALLOWED[dtype] for off in (output, *gradients))  # NaN is not right
        yield Checked(op, form, version, "right" if right else "wrong", output, max(gradients), 1e3 * seconds)


Form = tuple[str, str, str, Callable[[], list[Tensor]]]
"""The library, its version, why it cannot be tried, and a function that returns its result and gradients."""


def _forms(op: str, case: Case, tensors: list[Tensor], direction: Tensor) -> Iterator[Form]:
    version, narrow = metadata.version("recollect"), direction.to(tensors[0].dtype)
    off_gpu = "" if tensors[0].is_cuda else "needs a CUDA GPU"

    def ours(triton: str) -> list[Tensor]:
        with _environment(RECOLLECT_TRITON=triton, RECOLLECT_EXTERNAL="0"):
            return _results(case.ours, tensors, narrow)

    yield PYTORCH, version, "", partial(ours, "0")
    if case.triton:
        reason = off_gpu if importlib.util.find_spec("triton") else "Triton is not installed"
        yield TRITON, version, reason, partial(ours, "1")
    if op in external.OFFERS:
        # They are tried even where training would not use them (external.usable).
        reason = off_gpu if external.INSTALLED else "flash-linear-attention 0.6 or later is not installed"
        yield FLA, external.VERSION or "-", reason, lambda: _fla(op, case, tensors, narrow)
    if case.mamba is not None:
        mamba, installed = case.mamba, external.version_of("mamba-ssm")
        reason = off_gpu if installed else "mamba-ssm is not installed"
        yield MAMBA, installed or "-", reason, lambda: _results(mamba, tensors, narrow)


def _results(function: Callable[..., Tensor], tensors: Sequence[Tensor], direction: Tensor) -> list[Tensor]:
    """The result, and the gradients of all tensors for `direction`."""
    leaves = [t.detach().requires_grad_() for t in tensors]
    y = function(*leaves)
    return [y.detach(), *torch.autograd.grad(y, leaves, direction.to(y.dtype))]


def _fla(op: str, case: Case, tensors: list[Tensor], direction: Tensor) -> list[Tensor]:
    """Their kernels take time before heads."""

    def turned(t: Tensor) -> Tensor:
        return t.transpose(1, 2).contiguous() if case.heads_first else t

    return [turned(t) for t in external.theirs(op, [turned(t) for t in tensors], turned(direction))]


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _error(a: Tensor, b: Tensor) -> float:
    return ((a.double() - b).norm() / b.norm().clamp(min=1e-30)).item()


# Inputs as mixers have them: queries and keys of length 1, gates between 0 and 1, decays that forget within the row.


def _qkv(size: Size) -> list[Tensor]:
    q, k, v = (torch.randn(size.rows, size.heads, size.length, size.dim) for _ in range(3))
    return [F.normalize(q, dim=-1), F.normalize(k, dim=-1), v]


def _gates(size: Size, *names: str) -> list[Tensor]:
    lead = (size.rows, size.heads, size.length)
    made = {"beta": torch.rand(lead), "decay": -0.1 * torch.rand(lead), "decays": -0.1 * torch.rand(*lead, size.dim)}
    return [made[name] for name in names]


def _ssd(size: Size) -> list[Tensor]:
    q, k, v = (t.transpose(1, 2).contiguous() for t in _qkv(size))
    return [v, -0.1 * torch.rand(v.shape[:3]), k[:, :, :1], q[:, :, :1]]


def _mamba2(size: Size) -> list[Tensor]:
    x, _, B, C = _ssd(size)
    return [x, 0.1 * torch.rand(x.shape[:3]), -torch.linspace(1, 16, size.heads), B, C]


def _scan(size: Size) -> list[Tensor]:
    lead, channels = (size.rows, size.length), size.heads * size.dim
    x, dt, (B, C) = torch.randn(*lead, channels), torch.randn(*lead, channels), torch.randn(2, *lead, 16)
    A = -torch.arange(1.0, 17.0).repeat(channels, 1)
    return [x, dt, torch.full((channels,), -4.0), A, B, C, torch.ones(channels)]


def _conv(size: Size) -> list[Tensor]:
    channels = size.heads * size.dim
    return [torch.randn(size.rows, size.length, channels), torch.randn(channels, 4), torch.randn(channels)]


def _wkv(size: Size) -> list[Tensor]:
    channels = size.heads * size.dim
    k, v = torch.randn(2, size.rows, size.length, channels)
    return [torch.rand(channels), torch.randn(channels), k, v]


def _of_mamba2(scan: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda x, dt, A, B, C: scan(x * dt[..., None].to(x.dtype), A * dt, B, C)


def _kda_definition(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_alpha: Tensor) -> Tensor:
    return channel_delta_rule_definition(q, k, beta[..., None] * v, beta[..., None] * k, log_alpha)


def _mamba_scan(x: Tensor, dt: Tensor, bias: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor) -> Tensor:
    scan = import_module("mamba_ssm.ops.selective_scan_interface").selective_scan_fn
    x, dt, B, C = (t.mT.contiguous() for t in (x, dt, B, C))
    return scan(x, dt, A, B, C, D, delta_bias=bias, delta_softplus=True).mT


def _mamba_chunks(x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor) -> Tensor:
    scan = import_module("mamba_ssm.ops.triton.ssd_combined").mamba_chunk_scan_combined
    return scan(x, dt, A, B, C, chunk_size=64)


CASES = {
    "attention": Case(_qkv, attention_definition, attention),
    "linear_attention": Case(_qkv, linear_attention_definition, linear_attention),
    "delta_rule": Case(lambda s: [*_qkv(s), *_gates(s, "beta")], delta_rule_definition, delta_rule, wide=(3,)),
    "gated_delta_rule": Case(
        lambda s: [*_qkv(s), *_gates(s, "beta", "decay")], delta_rule_definition, delta_rule, wide=(3, 4)
    ),
    "kda": Case(lambda s: [*_qkv(s), *_gates(s, "beta", "decays")], _kda_definition, kda, wide=(3, 4)),
    "gated_linear_attention": Case(
        lambda s: [*_qkv(s), *_gates(s, "decays")], gated_linear_attention_definition, gated_linear_attention, wide=(3,),
        triton=False,
    ),
    "ssd": Case(_ssd, ssd_definition, ssd, wide=(1,), heads_first=False),
    "mamba2_scan": Case(
        _mamba2, _of_mamba2(ssd_definition), _of_mamba2(ssd), wide=(1, 2), heads_first=False, mamba=_mamba_chunks
    ),
    "selective_scan": Case(_scan, selective_scan_definition, selective_scan, wide=(2, 3, 6), mamba=_mamba_scan),
    "short_conv": Case(
        _conv, partial(short_conv_definition, activation="silu"), partial(short_conv, activation="silu"), wide=(1, 2)
    ),
    "wkv": Case(_wkv, wkv_definition, wkv, wide=(0, 1)),
}  # fmt: skip
"""By name, every op that has a kernel of ours or another library's."""
