"""On this machine: in this process, or in worker processes, one cohort at a time in each."""

import multiprocessing
import os
import signal
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Connection, wait

import torch

from recollect.study.executors.base import Broken, Done, Executor, Job, Report, Silent, attempt

_SPAWN = multiprocessing.get_context("spawn")  # a forked process cannot use CUDA, nor torch's threads
SILENCE = 900.0
"""Seconds without a word from a worker, which sends a snapshot each minute of training, that are worth telling."""


class InProcess(Executor):
    """One cohort after another, in this process."""

    def __init__(self, device: str, every: float, weights: bool = False):
        self.device, self._every, self._weights = device, every, weights

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
        """Nothing runs between reports."""


class Workers(Executor):
    """A worker process for each device given. One that dies is replaced, and its cohort reported as lost."""

    def __init__(self, device: str, devices: list[str], every: float, weights: bool = False):
        self.device, self._devices, self._every, self._weights = device, devices, every, weights
        self._threads = max(1, torch.get_num_threads() // len(devices))
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
