"""Which device trains, and how many processors there are."""

import os

import torch

from recollect.spec import SpecError


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def choose_device(device: str) -> str:
    """A device that is there; `auto` is a GPU where there is one."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise SpecError(f"device {device!r} cannot be used ({reason}); choose auto, cpu, cuda or cuda:N") from None
    return device
