"""On a Slurm cluster: each cohort is a task of an array job, which puts its reports into files of a shared folder.

The folder lies beside the store (STORE.jobs) and has one folder per cohort: the order, the newest snapshot, the reports that the
process which writes the store has not taken yet. A job therefore goes on without that process, which may stop, come back and
take what there is. Before its time limit a job saves a snapshot and requeues itself; when it is preempted or cancelled it saves
one and ends, and Slurm, or the process that writes the store, starts it again from there.
"""

import getpass
import pickle
import re
import shutil
import time
from collections import deque
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from recollect.spec import SpecError, digest
from recollect.study.executors.base import Executor, Job, Resources
from recollect.study.executors.order import Order
from recollect.study.executors.reports import ERROR, LAST, Broken, Halted, Report
from recollect.study.executors.slurm_job import NUMBER, ORDER, SNAPSHOT, slurm, work, write
from recollect.train.events import Ended, Measured
from recollect.train.spec import RunSpec

JOBS = 64
"""Cohorts that are submitted at once where the user does not say."""
HOUR = 3600.0
"""Seconds that a job may take before it is requeued, where the user does not say."""
NOTICE = 60
"""Seconds before its time limit at which a job is asked to save a snapshot."""
LOOK, QUEUE = 0.3, 5.0
"""Seconds between two looks at the folder, and at Slurm's queue."""
MISSED = 3
"""How many looks at the queue in a row may miss a job without a last report: then it is lost. Files may come later than that."""
_PLACE = re.compile(r"[0-9a-f]{16}-[0-9a-f]+")


@dataclass
class _Task:
    """A cohort that was submitted, seen from the process that writes the store."""

    job: Job
    number: str = ""
    """Slurm's, such as 12_3; empty until it is known."""
    began: float = 0.0
    missed: int = 0


class Slurm(Executor):
    """Cohorts as tasks of array jobs."""

    @classmethod
    def has_bfloat16(cls, resources: Resources) -> bool:
        """Whether GPUs are asked for: those of a queue are not known beforehand, and all since 2020 have bfloat16."""
        return _device(resources) == "cuda"

    def __init__(self, resources: Resources):
        if not shutil.which("sbatch"):
            raise SpecError("executor 'slurm' needs Slurm's commands, and there is no sbatch here")
        self.device, self.resources = _device(resources), resources
        self._folder = resources.folder.resolve()
        self._tasks: dict[Path, _Task] = {}
        self._new: list[Path] = []  # those still to submit
        self._ready: deque[tuple[Path, Report, Path | None]] = deque()  # and the file to remove when it is acted upon
        self._taken: Path | None = None
        self._looked = 0.0
        self._submitter = _submitter(self._folder, self.device, resources)

    @property
    def slots(self) -> int:
        """As many as the user says: they wait in Slurm's queue."""
        return self.resources.workers or JOBS

    def resume(self, pending: Sequence[RunSpec], done: Collection[str]) -> list[Job]:
        """Cohorts that an earlier process submitted: their reports are taken, and what has become of them is found out."""
        wanted = {run.id: run for run in pending}
        for place in sorted(self._folder.glob("*")):
            if not _PLACE.fullmatch(place.name) or place in self._tasks:
                continue
            if not (place / ORDER).exists():  # an earlier process ended before it was written
                shutil.rmtree(place, ignore_errors=True)
            with suppress(OSError, pickle.UnpicklingError, EOFError):
                order: Order = pickle.loads((place / ORDER).read_bytes())
                runs = [wanted[id] for _, id in order.specs if id in wanted]
                if all(id in done for _, id in order.specs):
                    shutil.rmtree(place, ignore_errors=True)
                if runs and (order.device, order.weights) == (self.device, self.resources.keep_weights):
                    self._tasks[place] = _Task(Job(runs), _number(place))
        return [task.job for task in self._tasks.values()]

    def submit(self, job: Job, saved: bytes | None) -> None:
        """Write down what a cohort is; it is submitted with others, as one array."""
        ids = [run.id for run in job.runs]
        place = self._folder / f"{digest(sorted(ids))}-{time.time_ns():x}"
        place.mkdir(parents=True)
        if saved:
            write(place / SNAPSHOT, saved)
        write(place / ORDER, pickle.dumps(Order.of(job, self.device, self.resources)))
        self._tasks[place] = _Task(job)
        self._new.append(place)

    def next(self) -> tuple[Job, Report]:
        """Wait for any of the jobs. A report is removed from its folder when the next is asked for: it has been acted upon."""
        if self._taken is not None:
            self._taken.unlink(missing_ok=True)
            self._taken = None
        self._submit_new()
        while not self._ready:
            if self.stop():
                return self._leave()
            for place, task in list(self._tasks.items()):
                self._collect(place, task)
            if not self._ready:
                self._look_at_queue()
            if not self._ready:
                time.sleep(LOOK)
        place, report, self._taken = self._ready.popleft()
        job = self._tasks[place].job
        if isinstance(report, LAST):
            del self._tasks[place]
            shutil.rmtree(place, ignore_errors=True)
        return job, report

    def close(self) -> None:
        """Jobs go on; a folder without any is removed."""
        if not any(_PLACE.fullmatch(place.name) for place in self._folder.glob("*")):
            shutil.rmtree(self._folder / "logs", ignore_errors=True)  # with what jobs read when they start
        with suppress(OSError):  # not empty
            self._folder.rmdir()

    def _submit_new(self) -> None:
        """Submit what is new as one array."""
        if not self._new:
            return
        try:
            with self._submitter.batch():
                jobs = [self._submitter.submit(work, str(place)) for place in self._new]
        except Exception as error:
            text = " ".join(f"{error} {getattr(error.__cause__ or error.__context__, 'stderr', '')}".split())
            raise SpecError(f"Slurm refused the jobs: {text[:ERROR]}") from error
        for place, job in zip(self._new, jobs, strict=True):
            self._tasks[place].number = job.job_id
            write(place / NUMBER, job.job_id.encode())
        self._new = []

    def _collect(self, place: Path, task: _Task) -> None:
        """Take the reports of a job that have come."""
        for path in sorted(place.glob("*.report")):
            left = {run.id for run in task.job.runs}
            reports = [r for r in pickle.loads(path.read_bytes()) if not isinstance(r, Ended) or r.run.id in left]
            ending = sum(isinstance(report, Ended) for report in reports)
            for number, report in enumerate(reports, 1):
                if isinstance(report, Measured):  # a job that was requeued may have reported some ends before
                    report = replace(report, ending=ending)
                self._ready.append((place, report, path if number == len(reports) else None))
            if not reports:
                path.unlink()
            else:
                return  # the next when this one has been acted upon: who is left may change

    def _look_at_queue(self) -> None:
        """Find jobs that are gone without a last word, and those that take too long."""
        if time.monotonic() - self._looked < QUEUE:
            return
        self._looked = time.monotonic()
        queue = _queue()
        for place, task in self._tasks.items():
            number = task.number = task.number or _number(place)
            if queue is not None and number not in queue and not list(place.glob("*.report")):
                task.missed += 1
            elif queue and queue.get(number) == "RUNNING":
                task.missed, task.began = 0, task.began or time.monotonic()
            if task.missed >= MISSED:
                error = (
                    f"Slurm job {number or 'without a number'} ended without a result{_last_line(self._folder, number)}"
                )
                self._ready.append((place, Broken("lost", error[:ERROR], error), None))
            elif self.resources.timeout and task.began and time.monotonic() - task.began > self.resources.timeout:
                slurm("scancel", number)
                self._ready.append((place, Broken.late(self.resources.timeout), None))

    def _leave(self) -> tuple[Job, Report]:
        """Let go of one job, which goes on."""
        named_before = re.findall(r"\d+", self.goes_on)
        numbers = sorted({*named_before, *(task.number.partition("_")[0] for task in self._tasks.values())})
        self.goes_on = f"; Slurm jobs {', '.join(numbers)} go on meanwhile (scancel ends them)"
        return self._tasks.popitem()[1].job, Halted()


def _submitter(folder: Path, device: str, resources: Resources) -> Any:
    """What submits jobs with the parameters that the user gives."""
    try:
        import submitit
    except ImportError:
        raise SpecError("executor 'slurm' needs an extra: pip install \"recollect[slurm]\"") from None
    given = resources.options
    parameters: dict[str, Any] = {
        "job_name": "recollect", "time": max(1, round((given.get("time") or HOUR) / 60)), "signal_delay_s": NOTICE,
        "array_parallelism": resources.workers or JOBS, "cpus_per_task": 1,
        "additional_parameters": {"requeue": True, **given.get("parameters", {})},
    }  # fmt: skip
    if given.get("partition"):
        parameters["partition"] = given["partition"]
    if device == "cuda":
        parameters |= {"gpus_per_node": given.get("gpus") or 1, "cpus_per_task": 2}
    submitter = submitit.SlurmExecutor(folder / "logs")
    submitter.update_parameters(**parameters)
    return submitter


def _device(resources: Resources) -> str:
    if resources.device not in ("auto", "cpu", "cuda"):
        raise SpecError(f"device {resources.device!r}: Slurm picks the device itself; choose auto, cpu or cuda")
    return resources.device if resources.device != "auto" else "cuda" if resources.options.get("gpus") else "cpu"


def _queue() -> dict[str, str] | None:
    """The state of each of the user's jobs by its number; None where Slurm does not answer now."""
    lines = slurm("squeue", "--noheader", "--array", "--user", getpass.getuser(), "--format", "%i %T")
    return None if lines is None else dict(line.split() for line in lines.splitlines())


def _number(place: Path) -> str:
    """Slurm's number of a job, as far as it is known."""
    with suppress(OSError):
        return (place / NUMBER).read_text()
    return ""


def _last_line(folder: Path, number: str) -> str:
    """The last line that a job wrote to its log."""
    with suppress(OSError, IndexError):
        return f": {(folder / 'logs' / f'{number}_0_log.err').read_text(errors='replace').strip().splitlines()[-1]}"
    return ""
