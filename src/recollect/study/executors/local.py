"""On this machine: in this process, or in worker processes, one cohort at a time in each."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from types import ModuleType

import torch

from recollect.study.executors.base import Broken, Done, Executor, Job, Report, Resources, Silent, attempt
from recollect.train.checkpoint import EVERY
from recollect.train.device import choose_device, cores

_SPAWN = multiprocessing.get_context("spawn")  # a forked process cannot use CUDA, nor torch's threads
SILENCE = 900.0
"""Seconds without a word from a worker, which sends a snapshot each minute of training, that are worth telling."""


class Local(Executor):
    """Training on this machine: in this process for one cohort at a time, else in worker processes."""

    @classmethod
    def start(cls, resources: Resources) -> Executor:
        """One worker per GPU or, on a CPU, one per processor as far as there are cohorts; several may share a GPU."""
        device = choose_device(resources.device)
        gpus = [f"cuda:{i}" for i in range(torch.cuda.device_count())] if device == "cuda" else []
        suited = min(cores(), resources.cohorts or 1) if device == "cpu" else len(gpus)
        workers = resources.workers or max(1, suited)
        every, weights = resources.checkpoint_every, resources.keep_weights
        if workers == 1:
            return InProcess(device, every, weights)
        return Workers(device, [gpus[i % len(gpus)] if gpus else device for i in range(workers)], every, weights)


class InProcess(Local):
    """One cohort after another, in this process."""

    def __init__(self, device: str, every: float = EVERY, weights: bool = False):
        self.device, self._every, self._weights = device, every, weights
        self._threads = torch.get_num_threads()
        if device == "cpu":  # small products are several times slower on many threads than on one
            torch.set_num_threads(1)

    @property
    def slots(self) -> int:
        """One cohort at a time."""
        return 1

    def submit(self, job: Job, saved: bytes | None) -> None:
        """Start a cohort; it advances while its reports are waited for."""
        self._job, self._reports = job, attempt(job.runs, self.device, saved, self._every, self._weights)

    def next(self) -> tuple[Job, Report]:
        """Train up to the next report."""
        report = next(self._reports)
        if isinstance(report, Broken) and self.device != "cpu":
            torch.cuda.empty_cache()  # the next cohort may need other sizes
        return self._job, report

    def close(self) -> None:
        """Nothing runs between reports; the process gets its threads back."""
        torch.set_num_threads(self._threads)


class Workers(Local):
    """A worker process for each device given. One that dies is replaced, and its cohort reported as lost."""

    def __init__(self, device: str, devices: list[str], every: float = EVERY, weights: bool = False):
        self.device, self._devices, self._every, self._weights = device, devices, every, weights
        self._threads = 1 if device == "cpu" else max(1, torch.get_num_threads() // len(devices))
        self._workers: list[_Worker] = []

    @property
    def slots(self) -> int:
        """One cohort a worker."""
        return len(self._devices)

    def submit(self, job: Job, saved: bytes | None) -> None:
        """Hand a cohort to an idle worker."""
        if not self._workers:
            self._workers = [_Worker(device, self._threads) for device in self._devices]
        worker = next(worker for worker in self._workers if worker.job is None)
        worker.job, worker.heard = job, time.monotonic()
        with suppress(OSError):  # one that died while idle: `next` finds out
            worker.pipe.send((job.runs, worker.device, saved, self._every, self._weights))

    def next(self) -> tuple[Job, Report]:
        """Wait for any of the workers."""
        busy = {worker.pipe: worker for worker in self._workers if worker.job}
        ready = []
        while not ready:
            ready = wait(list(busy), timeout=min(worker.patience() for worker in busy.values()))
            silent = [worker for pipe, worker in busy.items() if pipe not in ready and not worker.patience()]
            if silent:
                return silent[0].told(), Silent(SILENCE)
        worker = busy[ready[0]]  # pyright: ignore[reportArgumentType]
        job = worker.told()
        try:
            report = worker.pipe.recv()
        except (EOFError, OSError):
            report = worker.last_words()
            self._workers[self._workers.index(worker)] = _Worker(worker.device, self._threads)
        if isinstance(report, Done | Broken):
            worker.job = None
        return job, report

    def close(self) -> None:
        """End the workers, whatever they are at."""
        for worker in self._workers:
            worker.process.kill()
            worker.process.join()


class _Worker:
    """A worker process, seen from outside."""

    def __init__(self, device: str, threads: int):
        self.device = device
        self.job: Job | None = None
        self.heard = time.monotonic()
        self.pipe, inside = _SPAWN.Pipe()
        self.process = _SPAWN.Process(target=_work, args=(inside, threads), daemon=True)
        with _another_main():
            self.process.start()
        inside.close()  # so that the pipe ends when the worker does

    def patience(self) -> float:
        """Seconds for which its silence needs no telling yet."""
        return max(0.0, self.heard + SILENCE - time.monotonic())

    def told(self) -> Job:
        """Its cohort, of which there is something to tell now."""
        assert self.job is not None
        self.heard = time.monotonic()
        return self.job

    def last_words(self) -> Broken:
        """What there is to say about a worker that died."""
        self.process.join()
        code = self.process.exitcode or 0
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        error = f"worker process {self.process.pid} died ({how})"
        return Broken("lost", error, error)


@contextmanager
def _another_main() -> Iterator[None]:
    """Keeps a new process from running the user's script again: it would, to find what the script defines."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _work(pipe: Connection, threads: int) -> None:
    """A worker's life: take a cohort, report on it, take the next, until the other end of the pipe is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group, and the parent decides
    threading.Thread(target=_die_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    with suppress(EOFError, BrokenPipeError):
        while True:
            for report in attempt(*pipe.recv()):
                pipe.send(report)


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
