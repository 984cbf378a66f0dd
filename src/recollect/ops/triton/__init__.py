"""GPU kernels in Triton, one file per op, each beside the plain PyTorch form that it is held to.

Triton is optional and slow to import, so the ops import their kernels where they use them. RECOLLECT_TRITON=0 turns
the kernels off; TRITON_INTERPRET=1, set before Triton is imported, runs them on the CPU, slowly.
"""

import importlib.util
import os

import torch
from torch import Tensor

_INSTALLED = importlib.util.find_spec("triton") is not None


def available(x: Tensor) -> bool:
    """Whether kernels are to be used for x. They sum in float32, so float64 is left to the plain forms."""
    if not _INSTALLED or x.dtype == torch.float64 or os.environ.get("RECOLLECT_TRITON") == "0":
        return False
    return x.is_cuda or os.environ.get("TRITON_INTERPRET") == "1"


def short_dtype(x: Tensor) -> torch.dtype | None:
    """bfloat16 or float16 where products with x are to be computed in it, under autocast or because x is; else None."""
    device = x.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype
    return dtype if dtype in (torch.bfloat16, torch.float16) else None


def stages(x: Tensor, most: int) -> int:
    """Into how many stages a kernel's loop is cut, so that it reads ahead: as many as were fastest on an H200 in bfloat16 where
    there is as much shared memory (compute capabilities 9 and 10), else one."""
    roomy = x.is_cuda and torch.cuda.get_device_capability(x.device)[0] in (9, 10)
    return most if roomy and x.dtype == torch.bfloat16 else 1
