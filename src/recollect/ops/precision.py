"""The precision in which an op computes."""

import functools
from collections.abc import Callable

import torch
from torch import Tensor

HALF = (torch.bfloat16, torch.float16)


def half_dtype(x: Tensor) -> torch.dtype | None:
    """bfloat16 or float16 where products with x are computed in it, under autocast or because x has it; else None."""
    device = x.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype
    return dtype if dtype in HALF else None


def product_dtype(x: Tensor) -> torch.dtype:
    """The type in which products with x are computed: a 16-bit one, or its own."""
    return half_dtype(x) or x.dtype


def wide(dtype: torch.dtype) -> torch.dtype:
    """float32, or float64 for float64."""
    return torch.promote_types(dtype, torch.float32)


def in_float32(op: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`op` in float32 where its inputs are 16-bit, under autocast too: a sum over a sequence needs the digits."""

    @functools.wraps(op)
    def run(*args, **options) -> Tensor:
        first = args[0]
        with torch.autocast(first.device.type, enabled=False):
            widened = (a.to(wide(first.dtype)) if isinstance(a, Tensor) else a for a in args)
            return op(*widened, **options).to(first.dtype)

    return run
