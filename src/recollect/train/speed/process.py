"""A process that trains on a GPU: where its compiled code is kept, and which warnings are kept from the screen.

The warnings are those of PyTorch and Triton that a user can do nothing about.
"""

import logging
import os
import warnings
from functools import cache

import torch

from recollect.train.speed.cache import use_cache

MESSAGES = {
    "TensorFloat32 tensor cores for float32": "float32 was requested, and is kept",
    "Please use the new API settings to control TF32": "the older setting works in every version that is supported",
    "There is a performance drop because we have not yet implemented": "vmap reports a slow operation, which is correct",
    "Mismatch dtype between input and weight": "norms keep float32 weights under autocast",
    "Online softmax is disabled on the fly": "the compiler chooses between two right forms",
    "TRITON_DEFAULT_FP_FUSION": "a default of Triton's that may change",
    "The CUDA Graph is empty": "a graph that is recorded anew",
    "Torchinductor does not support code generation for complex": "those operations run as they are",
}
"""The beginning of each message that may be attributed to a file of recollect, and why it is of no use to a user."""


def prepare(device: torch.device) -> None:
    """Prepare this process for training on a device, where that is a GPU."""
    if device.type == "cuda":
        use_cache()
        silence()


@cache
def silence() -> None:
    """Keep those warnings, and the compilers' own, from the screen; once per process. $TORCH_LOGS brings the logs back."""
    for beginning in MESSAGES:
        warnings.filterwarnings("ignore", message=beginning)
    for module in (r"torch\._(inductor|dynamo|functorch)", "triton"):  # they concern the compilers' choices
        warnings.filterwarnings("ignore", module=module)
    if not os.environ.get("TORCH_LOGS"):
        for name in ("torch._inductor", "torch._dynamo", "torch._functorch"):
            logging.getLogger(name).setLevel(logging.ERROR)
