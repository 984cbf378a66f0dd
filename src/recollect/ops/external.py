"""Another library's kernels, used where they are installed, correct and faster: those of flash-linear-attention (fla).

mamba-ssm is not used: its selective scan takes one A for all rows, where a cohort has one per member, and its chunk scan
multiplies x by the same dt that gives the decay, which our op separates. For state-space duality fla is used for the plain form
only (RetNet's), not for Mamba2's with dt, D and x, B, C side by side.

An op is registered with `offered`. At the first call with a shape on a GPU in 16-bit precision, both compute forward and
backward. Theirs are refused, with a warning, if they fail or differ by more than TOLERANCE; else the faster one is used for
that shape for the rest of the process. RECOLLECT_EXTERNAL=0 turns this off.

Known to be wrong, so not tried: on Hopper with Triton 3.4 to 3.7.0, gradients of the delta rule and of all ops with
one decay per head; before fla 0.6, the delta rule's on Hopper with later versions too.
"""

import functools
import inspect
import os
import re
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module, metadata

import torch
from torch import Tensor

from recollect.ops.op import takes_outputs
from recollect.ops.precision import HALF
from recollect.spec import SpecError

OFFERS = {  # module, function, and its names for our op's tensors, all (rows, length, heads, ...), in our order
    "delta_rule": ("fla.ops.delta_rule", "chunk_delta_rule", ("q", "k", "v", "beta")),
    "gated_delta_rule": ("fla.ops.gated_delta_rule", "chunk_gated_delta_rule", ("q", "k", "v", "beta", "g")),
    "ssd": ("fla.ops.simple_gla", "chunk_simple_gla", ("v", "g", "k", "q")),
    "gated_linear_attention": ("fla.ops.gla", "chunk_gla", ("q", "k", "v", "g")),
    "kda": ("fla.ops.kda", "chunk_kda", ("q", "k", "v", "beta", "g")),
}
WRONG_ON_HOPPER = ("delta_rule", "gated_delta_rule", "ssd")
REPEATS = 5  # passes that are timed
TOLERANCE = 3e-2  # ||theirs - ours|| / ||ours||, of the result and of every gradient: what bfloat16 leaves


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", version)[:3])


def version_of(package: str) -> str:
    """The version of an installed package, or nothing."""
    return next((found.version for found in metadata.distributions(name=package)), "")


VERSION = version_of("fla-core")
INSTALLED = _numbers(VERSION) >= (0, 6)
_choices: dict[tuple, bool] = {}  # whether theirs are used for an op's shapes


def usable(op: str, device: torch.device) -> bool:
    """Whether theirs may be tried for `op`: they may serve on the device, and are not known to be wrong there."""
    if not may_serve(device):
        return False
    import triton

    hopper = torch.cuda.get_device_capability(device)[0] == 9
    return not (op in WRONG_ON_HOPPER and hopper and (3, 4) <= _numbers(triton.__version__) <= (3, 7, 0))


def may_serve(device: torch.device) -> bool:
    """Whether theirs can run on a device. It is known while a graph is traced: an op that is better left to the compiler where
    theirs cannot run asks this first."""
    return INSTALLED and device.type == "cuda" and os.environ.get("RECOLLECT_EXTERNAL") != "0"


def refuse_without_gpu(x: Tensor, what: str, instead: str) -> None:
    """Raise an error that names the cause where another library's kernels cannot run on x."""
    if not x.is_cuda and os.environ.get("TRITON_INTERPRET") != "1":
        needs = "computes with Triton kernels, which need a CUDA GPU"
        raise SpecError(f"{what} {needs}, and x is on the {x.device.type}{instead}")


def offered(op: str, forward: Callable, backward: Callable, fake: Callable) -> tuple[Callable, Callable]:
    """`forward` and `backward` of our op, as `op` takes them, that use their kernels for the shapes at which those are faster."""
    inputs = len(inspect.signature(forward).parameters)

    @functools.wraps(forward)
    def either_forward(*tensors: Tensor) -> tuple[Tensor, ...]:
        shapes = _shapes(op, tensors)
        if shapes not in _choices:
            _choices[shapes] = _theirs_win(op, forward, backward, tensors)
        if not _choices[shapes]:
            return forward(*tensors)
        return _forward(op, tensors), *fake(*tensors)[1:]  # what ours save for backward, not filled

    @functools.wraps(backward)
    def either_backward(grad: Tensor, *saved: Tensor) -> tuple[Tensor, ...]:
        theirs = _choices.get(_shapes(op, saved[:inputs]))
        return _backward(op, grad, saved[:inputs]) if theirs else backward(grad, *saved)

    return either_forward, either_backward


def _theirs_win(op: str, forward: Callable, backward: Callable, tensors: Sequence[Tensor]) -> bool:
    if tensors[0].dtype not in HALF or not usable(op, tensors[0].device):
        return False

    def ours() -> list[Tensor]:
        outputs = forward(*tensors)
        saved = outputs if takes_outputs(forward, backward) else ()
        return [outputs[0], *backward(outputs[0].sign(), *tensors, *saved)]

    def others() -> list[Tensor]:
        return theirs(op, tensors, expected[0].sign())

    expected = ours()
    try:
        error = torch.stack([_relative_error(a, b) for a, b in zip(others(), expected, strict=True)]).max().item()
        refusal = None if error < TOLERANCE else f"differs from ours by {error:.2g}"  # NaN differs too
    except Exception as failure:  # of any kind: ours are used instead
        refusal = f"fails ({type(failure).__name__}: {failure})"
    if refusal:
        warnings.warn(f"flash-linear-attention {VERSION}: {op} {refusal}; it is not used", stacklevel=2)
        return False
    return _milliseconds(others) < _milliseconds(ours)


def theirs(op: str, tensors: Sequence[Tensor], grad: Tensor) -> list[Tensor]:
    """Their result and their gradients for `grad`, without any check: for a comparison with a definition."""
    return [_forward(op, tensors), *_backward(op, grad, tensors)]


def _forward(op: str, tensors: Sequence[Tensor]) -> Tensor:
    return _call(op, _shared(tensors)).contiguous()


def _backward(op: str, grad: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Through their forward once more. Inside a custom op nothing but their own autograd function is recorded."""
    leaves = [x.detach().requires_grad_() for x in _shared(tensors)]
    with torch.enable_grad():
        y = _call(op, leaves)
    grads = torch.autograd.grad(y, leaves, grad)
    return tuple(g.sum_to_size(x.shape).contiguous() for g, x in zip(grads, tensors, strict=True))


def _call(op: str, tensors: Sequence[Tensor]) -> Tensor:
    module, function, names = OFFERS[op]
    return getattr(import_module(module), function)(**dict(zip(names, tensors, strict=True)), scale=1.0)[0]


def _shared(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Tensors that heads share, expanded to each of them."""
    heads = max(x.shape[2] for x in tensors)
    return [x.expand(*x.shape[:2], heads, *x.shape[3:]) for x in tensors]


def _milliseconds(run: Callable[[], object]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(REPEATS):
        run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / REPEATS


def _relative_error(a: Tensor, b: Tensor) -> Tensor:
    finite = b.isfinite()  # a member that diverged is no evidence about their kernel
    return torch.where(finite, a.float() - b, 0).norm() / torch.where(finite, b.float(), 0).norm().clamp(min=1e-30)


def _shapes(op: str, tensors: Sequence[Tensor]) -> tuple:
    return op, tensors[0].device, *((x.shape, x.dtype) for x in tensors)
