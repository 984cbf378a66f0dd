"""Where cohorts are trained: in this process, in worker processes, or on a Ray cluster. Results are the same on each."""

import torch

from recollect.spec import SpecError, nearest
from recollect.study.executors.base import Broken, Done, Executor, Job, Report
from recollect.study.executors.local import InProcess, Workers
from recollect.train.checkpoint import EVERY
from recollect.train.device import choose_device

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


__all__ = [
    "EXECUTORS",
    "Broken",
    "Done",
    "Executor",
    "InProcess",
    "Job",
    "Report",
    "Workers",
    "open_executor",
]
