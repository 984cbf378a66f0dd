"""Whether a fused form replaces the plain one: on a GPU, in 16-bit precision, in training, without hooks.

Mixers and models do not decide this: they call an op, and the op calls these functions. RECOLLECT_TRITON=0 turns our kernels off;
TRITON_INTERPRET=1, set before Triton is imported, runs them on the CPU, slowly.
"""

import importlib.util
import os

import torch
from torch import Tensor, nn
from torch._C._functorch import is_batchedtensor  # pyright: ignore[reportMissingImports]

from recollect.ops.precision import half_dtype

_INSTALLED = importlib.util.find_spec("triton") is not None


def use_kernels(x: Tensor) -> bool:
    """Whether our kernels are used for x. They sum in float32, so float64 is left to the plain forms."""
    if not _INSTALLED or x.dtype == torch.float64 or os.environ.get("RECOLLECT_TRITON") == "0":
        return False
    return x.is_cuda or os.environ.get("TRITON_INTERPRET") == "1"


def kernel_dtype(x: Tensor) -> torch.dtype | None:
    """The 16-bit type in which our kernels compute, or None where x is left to PyTorch's own products, as float32 is."""
    return half_dtype(x) if use_kernels(x) else None


def chunk_dtype(x: Tensor, *sizes: int) -> torch.dtype | None:
    """The same for kernels that hold a state of these sizes in registers; float16 is widened there, because its range is too
    small."""
    dtype = kernel_dtype(x)
    return dtype if max(sizes) <= (128 if dtype == torch.bfloat16 else 64) else None


def alone_on_cpu(x: Tensor) -> bool:
    """Whether x is on the CPU and of a single member: then a form may be used whose last bits depend on a tensor's size."""
    return x.device.type == "cpu" and not is_batchedtensor(x)


def refuse_members(x: Tensor, what: str) -> None:
    """Raise RuntimeError under vmap: the op then runs for one member after another (train/cohort.py)."""
    if is_batchedtensor(x):
        raise RuntimeError(f"{what} takes one member at a time")


def has_hooks(*parts: nn.Module | None) -> bool:
    """Whether one of these has a hook: then they are called one by one, even where one op could replace them."""
    if torch.compiler.is_compiling():
        return False
    return any(part is not None and (part._forward_hooks or part._forward_pre_hooks) for part in parts)


def trains_on_gpu(x: Tensor) -> bool:
    """Whether x is on a GPU and gradients are wanted."""
    return x.is_cuda and torch.is_grad_enabled()


def takes_norm(part: nn.Module, x: Tensor) -> bool:
    """Whether a part with `after_norm` applies the norm before it itself (ops/norms.py): in training on a GPU, without hooks."""
    return hasattr(part, "after_norm") and trains_on_gpu(x) and not has_hooks(part)
