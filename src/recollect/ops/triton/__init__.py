"""GPU kernels in Triton, one file per op, each tested against the plain PyTorch form of its op.

Triton is optional and slow to import, so a file of kernels is imported when it is first used: `triton.mlp.forward(..)`.
ops/fused.py decides when that is.
"""

from importlib import import_module
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from recollect.ops.triton import answer_loss as answer_loss
    from recollect.ops.triton import attention as attention
    from recollect.ops.triton import channel_delta_rule as channel_delta_rule
    from recollect.ops.triton import delta_rule as delta_rule
    from recollect.ops.triton import gated_norm as gated_norm
    from recollect.ops.triton import linear_attention as linear_attention
    from recollect.ops.triton import linear_attention_pairs as linear_attention_pairs
    from recollect.ops.triton import mlp as mlp
    from recollect.ops.triton import optimisers as optimisers
    from recollect.ops.triton import selective_scan as selective_scan
    from recollect.ops.triton import short_conv as short_conv
    from recollect.ops.triton import ssd as ssd
    from recollect.ops.triton import wkv as wkv
else:

    def __getattr__(name: str):
        if name.startswith("_"):
            raise AttributeError(name)
        return import_module(f"{__name__}.{name}")


def stages(x: Tensor, most: int) -> int:
    """How many stages a kernel's loop is pipelined into, so that it reads ahead: as many as were fastest on an H200 in bfloat16
    on GPUs with as much shared memory (compute capabilities 9 and 10), else one."""
    large = x.is_cuda and torch.cuda.get_device_capability(x.device)[0] in (9, 10)
    return most if large and x.dtype == torch.bfloat16 else 1
