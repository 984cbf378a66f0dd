"""GPU kernels in Triton, one file per op, each beside the plain PyTorch form that it is held to.

Triton is optional and slow to import, so the ops import their kernels where they use them; ops/fused.py says when that is.
"""

import torch
from torch import Tensor


def stages(x: Tensor, most: int) -> int:
    """Into how many stages a kernel's loop is cut, so that it reads ahead: as many as were fastest on an H200 in bfloat16 where
    there is as much shared memory (compute capabilities 9 and 10), else one."""
    large = x.is_cuda and torch.cuda.get_device_capability(x.device)[0] in (9, 10)
    return most if large and x.dtype == torch.bfloat16 else 1
