"""On this machine: in this process, or in worker processes, one cohort at a time in each."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from recollect.study.executors.base import Executor, Job, Resources, attempt, own_code
from recollect.study.executors.reports import Broken, Report
from recollect.study.executors.sharing import suited_workers
from recollect.study.executors.upcoming import Upcoming
from recollect.study.executors.workers import Workers
from recollect.train.device import check_precision, choose_device, gpus
from recollect.train.spec import RunSpec
from recollect.train.speed.cache import trim_cache, use_cache


class Local(Executor):
    """Training on this machine: in this process for one cohort of built-in code at a time, else in worker processes."""

    @classmethod
    def start(cls, resources: Resources) -> Executor:
        """As many workers as are asked for, or as suit the runs and the device; several may share a GPU."""
        device = choose_device(resources.device)
        for run in resources.runs:
            check_precision(device, run.train.precision)
        places = gpus(device) or [device]
        if gpus(device):
            use_cache()
            trim_cache()
        workers = resources.workers or (1 if device == "mps" else suited_workers(resources.runs, places))
        built_in = bool(resources.runs) and not any(map(own_code, resources.runs))  # unknown runs may be of any code
        here = workers == 1 and built_in and not resources.timeout
        return (InProcess if here else Workers).start(replace(resources, workers=workers))


class InProcess(Executor):
    """One cohort after another, in this process: for built-in code only, as a user's own may end or change the process."""

    def __init__(self, resources: Resources):
        super().__init__(resources)
        self._threads, self._upcoming = torch.get_num_threads(), Upcoming(self.device, workers=1)
        if self.device == "cpu":  # small products are several times slower on many threads than on one
            torch.set_num_threads(1)

    @property
    def slots(self) -> int:
        """One cohort at a time."""
        return 1

    def expect(self, cohorts: Sequence[Sequence[RunSpec]]) -> None:
        """Compile their steps while others train."""
        self._upcoming.expect(cohorts)

    def submit(self, job: Job, saved: bytes | None) -> None:
        """Start a cohort; it advances while its reports are waited for."""
        given = self.resources
        self._job = job
        self._reports = attempt(job.runs, self.device, saved, given.checkpoint_every, given.keep_weights, self.stop)

    def next(self) -> tuple[Job, Report]:
        """Train up to the next report."""
        self._upcoming.advance()
        report = next(self._reports)
        if isinstance(report, Broken) and self.device != "cpu":
            torch.cuda.empty_cache()  # the next cohort may need other sizes
        return self._job, report

    def close(self) -> None:
        """Nothing trains between reports; the process gets its threads back."""
        self._upcoming.close()
        torch.set_num_threads(self._threads)
