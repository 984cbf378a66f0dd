"""Worker processes on this machine, one cohort at a time in each."""

import atexit
import os
import time
import warnings
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait

import torch

from recollect.spec import SpecError
from recollect.spec.apart import how_it_ended, settle, spawn
from recollect.spec.faults import fault_point
from recollect.study.executors.base import GRACE, TICK, Executor, Job, Resources, StopAsked, attempt, own_code
from recollect.study.executors.mps import Mps
from recollect.study.executors.reports import LAST, Began, Broken, Halted, Report, Silent, Warned
from recollect.study.executors.upcoming import Upcoming
from recollect.train.device import gpus
from recollect.train.spec import RunSpec

SILENCE = 900.0
"""Seconds without a report from a worker, which sends a snapshot each minute of training, after which the user is warned."""
START = 60.0
"""Seconds that a worker may take to start before its cohort's time is counted."""
WARNING = 300
"""Characters of a warning at most."""


class Workers(Executor):
    """A worker process for each device given, as far as there are cohorts. One that dies is replaced, and its cohort reported
    as lost. A worker that has trained code of a user's own trains no other code."""

    def __init__(self, resources: Resources):
        """So many workers, several to a GPU where there are more of them than GPUs."""
        super().__init__(resources)
        places = gpus(self.device) or [self.device]
        self._devices = [places[i % len(places)] for i in range(resources.workers or len(places))]
        self._threads = 1 if self.device == "cpu" else max(1, torch.get_num_threads() // self.slots)
        self._workers: list[_Worker] = []
        self._mps: Mps | None = None
        self._upcoming = Upcoming(self.device, self.slots)

    @property
    def slots(self) -> int:
        """One cohort per worker."""
        return len(self._devices)

    def expect(self, cohorts: Sequence[Sequence[RunSpec]]) -> None:
        """Compile their steps while others train."""
        self._upcoming.expect(cohorts)

    def submit(self, job: Job, saved: bytes | None) -> None:
        """Hand a cohort to an idle worker; the next one is started when all have a cohort."""
        self._workers = [worker for worker in self._workers if worker.job or worker.process.is_alive()]
        code = own_code(job.runs[0])
        idle = [worker for worker in self._workers if worker.job is None]
        worker = next((worker for worker in idle if worker.code == code), None)
        if worker is None and len(self._workers) == self.slots:
            self._workers.remove(idle[0])
            idle[0].end()
        worker = worker or self._another(code)
        worker.job, worker.last_report, worker.began = job, time.monotonic(), time.monotonic() + START
        with suppress(OSError):  # one that died while idle: `next` finds out
            given = self.resources
            worker.pipe.send((job.runs, worker.device, saved, given.checkpoint_every, given.keep_weights))

    def next(self) -> tuple[Job, Report]:
        """Wait for any of the workers."""
        self._upcoming.advance()
        busy = {worker.pipe: worker for worker in self._workers if worker.job}
        ready, timeout = [], self.resources.timeout
        while not ready:
            if self.stop():
                for worker in busy.values():
                    worker.ask_to_stop()
            ready, now = wait(list(busy), timeout=TICK), time.monotonic()
            for pipe, worker in busy.items():
                if timeout and now - worker.began > timeout:
                    return self._ended(worker), Broken.late(timeout)
                if pipe not in ready and worker.asked and now - worker.asked > GRACE:  # it may be at a long measurement
                    return self._ended(worker), Halted()
                if pipe not in ready and now - worker.last_report >= SILENCE:
                    return worker.with_news(), Silent(SILENCE)
        worker = busy[ready[0]]  # pyright: ignore[reportArgumentType]
        job = worker.with_news()
        try:
            report = worker.pipe.recv()
        except (EOFError, OSError):
            error = f"worker process {worker.process.pid} died ({how_it_ended(worker.process)})"
            report = Broken("lost", error, error)
            self._workers.remove(worker)
        if isinstance(report, Began):
            worker.began = time.monotonic()
        if isinstance(report, LAST):
            worker.job, worker.asked = None, 0.0
        return job, report

    def _ended(self, worker: "_Worker") -> Job:
        """The cohort of a worker that is ended, whatever it is at."""
        self._workers.remove(worker)
        worker.end()
        return worker.with_news()

    def close(self) -> None:
        """End the workers, whatever they are at."""
        self._upcoming.close()
        while self._workers:
            self._workers[-1].end()
            self._workers.pop()
        if self._mps is not None:
            self._mps.close()
            self._mps = None
        atexit.unregister(self.close)  # last: a second Ctrl-C may have come in between

    def _another(self, code: tuple[str, ...]) -> "_Worker":
        """One more worker for cohorts with this code of a user's own, on the device that lacks the most of its workers."""
        if not self._workers:
            atexit.register(self.close)
            if self.device != "cpu" and len(set(self._devices)) < len(self._devices):
                self._mps = self._mps or Mps.start()
        left = Counter(self._devices) - Counter(worker.device for worker in self._workers)
        environment = {"TORCHINDUCTOR_COMPILE_THREADS": str(self._threads)}
        if self._mps:
            environment |= self._mps.environment
        self._workers.append(_Worker(left.most_common(1)[0][0], self._threads, environment, code))
        return self._workers[-1]


class _Worker:
    """A worker process, seen from outside."""

    def __init__(self, device: str, threads: int, environment: Mapping[str, str], code: tuple[str, ...]):
        self.device, self.code = device, code
        self.job: Job | None = None
        self.last_report = self.began = time.monotonic()  # when it last reported, and when its cohort began
        self.asked = 0.0  # when it was asked to stop
        self.process, self.pipe = spawn(_work, threads, environment)

    def with_news(self) -> Job:
        """Its cohort, which has something to report now."""
        assert self.job is not None
        self.last_report = time.monotonic()
        return self.job

    def ask_to_stop(self) -> None:
        """Ask for a snapshot of its cohort, and no more training; once."""
        if not self.asked:
            self.asked = time.monotonic()
            with suppress(OSError):  # it has died
                self.pipe.send(None)

    def end(self) -> None:
        """End the process at once."""
        self.process.kill()
        self.process.join()


def _work(pipe: Connection, threads: int, environment: Mapping[str, str]) -> None:
    """A worker's loop: take a cohort, report on it, take the next, until the other end of the pipe is gone."""
    settle(pipe)
    warnings.filterwarnings("ignore", module=r"recollect\.")  # results have these as notes
    warned = _collect_warnings()
    os.environ.update(environment)  # before CUDA and the compiler read it
    torch.set_num_threads(threads)
    with suppress(EOFError, OSError):  # the other end is gone, or this is a process that the user's own code has forked
        while True:
            try:
                order = pipe.recv()
            except SpecError as error:  # a user's own file that has been edited or removed
                pipe.send(Broken.by(error))
                continue
            if order is None:  # asked to stop when there was nothing to stop
                continue
            pipe.send(Began())
            asked = StopAsked(lambda: pipe.poll() and pipe.recv() is None)  # nothing else is sent while a cohort trains
            for report in attempt(*order, stop=asked):
                while warned:
                    pipe.send(Warned(warned.popleft()))
                fault_point("worker: send")
                pipe.send(report)
                fault_point("worker: sent")
                if isinstance(report, Broken) and report.why == "error" and "CUDA error" in report.error:
                    return  # after it a process cannot use its GPU any more: another takes its place


def _collect_warnings() -> deque[str]:
    """The warnings of this process from now on, each in one line, instead of on the screen, where they would tear the progress
    display of the process that reports on training."""
    warned: deque[str] = deque()

    def collect(message: Warning | str, category: type[Warning], filename: str, line: int, *_: object) -> None:
        warned.append(f"{category.__name__}: {' '.join(str(message).split())[:WARNING]} ({filename}:{line})")

    warnings.showwarning = collect
    return warned
