"""Where cohorts are trained: in this process, in worker processes, or on a Ray cluster. Results are the same on each."""

import os

import torch

from recollect.spec import SpecError, nearest
from recollect.study.executors.base import Broken, Done, Executor, Job, Report
from recollect.study.executors.local import InProcess, Workers
from recollect.train.checkpoint import EVERY

EXECUTORS = ("local", "ray")


def open_executor(
    kind: str = "local",
    device: str = "auto",
    workers: int = 0,
    address: str = "auto",
    every: float = EVERY,
    weights: bool = False,
) -> Executor:
    """An executor of the kind named; `workers` 0 is one process a GPU where there are several, else this process.

    With `weights`, results bring the trained parameters along, and the store keeps them.
    """
    if kind not in EXECUTORS:
        raise SpecError(f"executor {kind!r}: {nearest(kind, EXECUTORS)}")
    if kind == "ray":
        from recollect.study.executors.ray import Ray

        return Ray(address, device, every, weights)
    device = choose_device(device)
    gpus = [f"cuda:{i}" for i in range(torch.cuda.device_count())] if device == "cuda" else []
    workers = workers or max(1, len(gpus))
    if workers == 1:
        return InProcess(device, every, weights)
    return Workers(device, [gpus[i % len(gpus)] if gpus else device for i in range(workers)], every, weights)


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


__all__ = [
    "EXECUTORS",
    "Broken",
    "Done",
    "Executor",
    "InProcess",
    "Job",
    "Report",
    "Workers",
    "choose_device",
    "cores",
    "open_executor",
]
