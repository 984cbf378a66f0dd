"""Which device trains, and how many processors there are."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch

from recollect.spec import SpecError


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def choose_device(device: str) -> str:
    """An available device; `auto` is a GPU where there is one."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if (found := gpus("cuda")) and device in ("cuda", *found):
        return device  # without a context on the GPU, which would take memory that workers need
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise SpecError(f"device {device!r} cannot be used ({reason}); choose auto, cpu, cuda, cuda:N or mps") from None
    return device


def check_precision(device: str, precision: str) -> None:
    """Refuse what a device cannot compute in: an Apple GPU (`mps`) trains in float32."""
    if device == "mps" and precision != "float32":
        raise SpecError(f"precision {precision!r}: device 'mps' trains in float32 only; choose that, or --device cpu")


def has_float64(device: torch.device) -> bool:
    """Whether a device computes in float64: all but Apple's GPUs do."""
    return device.type != "mps"


def sum_dtype(device: torch.device) -> torch.dtype:
    """The type of running sums and of the members' numbers on a device: float64 where there is one."""
    return torch.float64 if has_float64(device) else torch.float32


def drawing_device(device: torch.device) -> torch.device:
    """Where the rows for a device are drawn: that takes float64, so for an Apple GPU it is the CPU, with the same rows."""
    return device if has_float64(device) else torch.device("cpu")


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch compute with one thread of this process."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Let float32 products on a GPU be rounded as `torch.set_float32_matmul_precision` says. It is a setting of the whole
    process, so it is put back."""
    before = None
    with suppress(RuntimeError):  # PyTorch raises where it was also set by its newer interface
        before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        if before is not None:
            torch.set_float32_matmul_precision(before)


def gpus(device: str) -> list[str]:
    """The GPUs that a device means: all for `cuda`, one for `cuda:1`, none for `cpu`."""
    if device == "cuda":
        return [f"cuda:{i}" for i in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    return [device] if device.startswith("cuda") else []


def has_bfloat16(device: str) -> bool:
    """Whether a device computes in bfloat16 by itself: NVIDIA GPUs do from the Ampere generation on."""
    found = gpus(device)
    return bool(found) and all(torch.cuda.get_device_capability(gpu) >= (8, 0) for gpu in found)
