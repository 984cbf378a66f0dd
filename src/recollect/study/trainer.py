"""Trains runs: packs them into cohorts, hands these to an executor, and keeps each result as it comes.

This process is the only one that writes: results to the store, snapshots to the folder beside it. Executors only train.
"""

import itertools
from collections import Counter, deque
from dataclasses import dataclass

from recollect.store.checkpoints import Checkpoints
from recollect.store.files import write_errors
from recollect.store.writer import Writer
from recollect.study.executors.base import Broken, Done, Executor, Job, Report, Silent
from recollect.study.sinks.base import Watch
from recollect.train.events import Ended, Measured, Saved
from recollect.train.spec import RunSpec

GPU_COHORT, CPU_COHORT = 64, 8
"""Runs that train together at most, by device."""
ATTEMPTS = 2
"""How often a run that fails alone, or a cohort whose worker dies, is tried."""


@dataclass
class Failed:
    """A run that failed for good."""

    run: RunSpec
    error: str


@dataclass
class Note:
    """Something that a person who watches may want to know."""

    text: str


class Trainer:
    """Runs in training: what is queued, what has ended, what failed."""

    def __init__(
        self, writer: Writer, executor: Executor, checkpoints: Checkpoints, watch: Watch, attempts: int = ATTEMPTS
    ):
        self.writer, self.executor, self.checkpoints = writer, executor, checkpoints
        self.attempts, self.watch = attempts, watch
        self.ended: Counter[str] = Counter()  # runs that ended, by how they did
        self.failed: dict[str, str] = {}  # runs that failed for good: id and error
        self.queue: deque[Job] = deque()
        self.fits: dict[str, int] = {}  # by shape: how many runs memory holds, where more were too many
        self.failures: Counter[str] = Counter()  # by run

    def train(self, pending: list[RunSpec], size: int) -> None:
        """Train these runs; those that share a snapshot go on together."""
        groups: dict[object, list[RunSpec]] = {}
        for run in pending:
            groups.setdefault(self.checkpoints.of.get(run.id), []).append(run)
        self.queue.extend(Job(cohort) for group in groups.values() for cohort in pack(group, size))
        running = 0
        while self.queue or running:
            while self.queue and running < self.executor.slots:
                job = self.queue.popleft()
                if len(job.runs) > (fits := self.fits.get(job.runs[0].shape, size)):
                    self.again(*pack(job.runs, fits))
                    continue
                self.executor.submit(job, self.checkpoints.load(job.runs[0].id))
                running += 1
            job, report = self.executor.next()
            self.take(job, report)
            running -= isinstance(report, Done | Broken)

    def take(self, job: Job, report: Report) -> None:
        """Act on a report. Results are kept before anything that relies on their being kept."""
        if isinstance(report, Measured | Ended):
            self.watch(job.runs, report)
        if isinstance(report, Measured):
            job.ending = report.ending
        elif isinstance(report, Ended):
            job.ended.append(report)
            if len(job.ended) == job.ending:
                self.keep(job)
        elif isinstance(report, Saved):
            with write_errors(self.checkpoints.folder):
                self.checkpoints.save([run.id for run in job.runs], report.data)
            job.tries = 0
        elif isinstance(report, Silent) and job.runs:
            minutes = report.seconds / 60
            self.say(
                job.runs,
                f"nothing heard of {len(job.runs)} runs of {job.runs[0].model.title} for {minutes:.0f} minutes: they may be "
                "stuck, or at a long measurement; Ctrl-C and the same command take them up again",
            )
        elif isinstance(report, Broken):
            self.keep(job)
            self.mend(job, report)

    def keep(self, job: Job) -> None:
        """Put the results of one measurement into the store, in one transaction."""
        if not job.ended:
            return
        self.writer.add_results(job.ended, self.executor.device)
        self.ended.update(ended.status for ended in job.ended)
        ids = {ended.run.id for ended in job.ended}
        self.checkpoints.forget(ids)
        job.runs = [run for run in job.runs if run.id not in ids]
        job.ended = []

    def mend(self, job: Job, broken: Broken) -> None:
        """What to do about a cohort that will not go on: try it again, smaller, or give up the run at fault."""
        runs, half = job.runs, -(-len(job.runs) // 2)
        if not runs:  # lost after its last result
            return
        if broken.why == "snapshot":
            self.say(runs, f"{broken.error}: a snapshot that cannot be used; its {len(runs)} runs start anew")
            self.checkpoints.forget(run.id for run in runs)
            self.again(runs)
            return
        if broken.why == "memory" and len(runs) > 1:
            fits = broken.fits or half
            self.say(runs, f"out of memory with {len(runs)} runs of {runs[0].model.title} at once; {fits} from now on")
            self.fits[runs[0].shape] = min(fits, self.fits.get(runs[0].shape, fits))
            self.again(runs)
            return
        for run in runs:
            self.failures[run.id] += 1
            self.writer.add_failure(run.id, self.failures[run.id], broken.error, broken.traceback)
        job.tries += 1
        if len(runs) > 1 and (broken.why == "error" or job.tries >= self.attempts):
            self.say(
                runs,
                f"{broken.error}: {len(runs)} runs of {runs[0].model.title} go on as two halves, to find the one at fault",
            )
            self.again(runs[:half], runs[half:])
        elif job.tries < self.attempts:
            self.say(runs, f"{broken.error}: trying again")
            self.queue.append(job)
        else:
            for run in runs:
                self.checkpoints.forget([run.id])
                self.failed[run.id] = broken.error
                self.watch(runs, Failed(run, broken.error))

    def again(self, *cohorts: list[RunSpec]) -> None:
        self.queue.extendleft(Job(cohort) for cohort in reversed(cohorts))

    def say(self, runs: list[RunSpec], text: str) -> None:
        self.watch(runs, Note(text))


def pack(runs: list[RunSpec], size: int) -> list[list[RunSpec]]:
    """Cohorts of at most `size` runs of one shape, as even as can be, in the order of the study."""
    groups: dict[str, list[RunSpec]] = {}
    for run in runs:
        groups.setdefault(run.shape, []).append(run)
    cohorts = []
    for group in groups.values():
        parts = -(-len(group) // size)
        bounds = [round(i * len(group) / parts) for i in range(parts + 1)]
        cohorts += [group[a:b] for a, b in itertools.pairwise(bounds)]
    return cohorts


def cohort_size(device: str, runs: int, slots: int) -> int:
    """How many runs train together unless the user says otherwise.

    A GPU needs many to be full, and has fewer where its memory is measured to be too small. A CPU's caches want few, and
    every processor should have a cohort.
    """
    if device.startswith("cuda"):
        return GPU_COHORT
    return min(CPU_COHORT, max(2, -(-runs // max(1, slots))))
