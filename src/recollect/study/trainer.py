"""Trains runs: packs them into cohorts, hands these to an executor, and keeps each result as it comes.

This process is the only one that writes: results to the store, snapshots to the folder beside it. Executors only train.
"""

import math
from collections import Counter, deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from recollect.spec.faults import fault_point
from recollect.store.checkpoints import Checkpoints
from recollect.store.files import write_errors
from recollect.store.writer import Writer
from recollect.study.executors.base import Executor, Job
from recollect.study.executors.reports import LAST, Broken, Done, Report, Silent, Warned
from recollect.study.packing import pack
from recollect.study.queue import in_order, step_seconds
from recollect.study.sinks.base import Watch
from recollect.study.stop import StopRequest
from recollect.train.events import Ended, Measured, Saved
from recollect.train.spec import RunSpec

ATTEMPTS = 2
"""How often a run that fails alone, or a cohort whose worker dies, is tried."""


@dataclass
class Failed:
    """A run that failed for good."""

    run: RunSpec
    error: str


@dataclass
class Note:
    """A note for the user."""

    text: str


class Trainer:
    """Runs in training: what is queued, what has ended, what failed."""

    def __init__(
        self, writer: Writer, executor: Executor, checkpoints: Checkpoints, watch: Watch, stop: StopRequest,
        attempts: int = ATTEMPTS,
    ):  # fmt: skip
        self.writer, self.executor, self.checkpoints = writer, executor, checkpoints
        self.attempts, self.watch, self.stop = attempts, watch, stop
        executor.stop = stop
        self.ended: Counter[str] = Counter()  # runs that ended, by how they did
        self.failed: dict[str, str] = {}  # runs that failed for good, now or before: id and error
        self.queue: deque[Job] = deque()
        self.fits: dict[str, int] = {}  # by shape: how many runs memory holds, where more were too many
        self.failures: Counter[str] = Counter()  # by run
        self.steps = dict(checkpoints.steps)  # by run: the step of its last snapshot
        self.begun: set[str] = set()  # runs that have been submitted
        self.seconds: dict[str, float] = {}  # by run: about how long a step takes, where that matters
        self.shown: set[str] = set()  # notes of results and warnings that have been shown

    def train(self, pending: list[RunSpec], size: int, done: Collection[str] = ()) -> None:
        """Train these runs until all have ended or a stop is requested; runs that share a snapshot continue together.
        `done` are the ids of all runs that have ended."""
        resumed = self.executor.resume(pending, done)
        taken = {run.id for job in resumed for run in job.runs}
        groups: dict[object, list[RunSpec]] = {}
        for run in [run for run in pending if run.id not in taken]:
            groups.setdefault(self.checkpoints.of.get(run.id), []).append(run)
        cohorts = [cohort for group in groups.values() for cohort in pack(group, size)]
        limited, slots = math.isfinite(self.stop.left()), self.executor.slots
        if limited or slots > 1:
            self.seconds = step_seconds(pending, self.executor.device)
            cohorts = in_order(cohorts, slots, limited, {run.id: self.seconds_left(run) for run in pending})
        self.queue.extend(map(Job, cohorts))
        self.executor.expect(cohorts)
        running = len(resumed)
        while (self.queue and not self.stop()) or running:
            while self.queue and running < self.executor.slots and not self.stop():
                job = self.next_job()
                if len(job.runs) > (fits := self.fits.get(job.runs[0].shape, size)):
                    self.again(*pack(job.runs, fits))
                    continue
                fault_point("message: submit")
                self.executor.submit(job, self.checkpoints.load(job.runs[0].id))
                fault_point("message: submitted")
                self.begun.update(run.id for run in job.runs)
                running += 1
            if not running:  # a stop was requested just now
                continue
            job, report = self.executor.next()
            fault_point("message: received")
            self.take(job, report)
            fault_point("message: acted upon")
            running -= isinstance(report, LAST)

    def next_job(self) -> Job:
        """Take from the queue the first cohort that can end in the time that is left, or, where none can, the first."""
        left = self.stop.left()
        fitting = (i for i, job in enumerate(self.queue) if sum(map(self.seconds_left, job.runs)) <= left)
        self.queue.rotate(-(place := next(fitting, 0)))
        job = self.queue.popleft()
        self.queue.rotate(place)
        return job

    def seconds_left(self, run: RunSpec) -> float:
        """About how many seconds are left of a run; 0 where that does not matter."""
        return self.seconds.get(run.id, 0.0) * (run.train.total_steps - self.steps.get(run.id, 0))

    def take(self, job: Job, report: Report) -> None:
        """Act on a report. Results are kept before anything that relies on their being kept."""
        if isinstance(report, Ended) and report.run.id not in {run.id for run in job.runs}:
            return  # reported before, by a job that was started again
        if isinstance(report, Measured | Ended):
            self.watch(job.runs, report)
        if isinstance(report, Measured):
            job.ending = report.ending
            self.writer.add_measured(job.runs, report)
        elif isinstance(report, Ended):
            for text in report.notes:
                self.say_once(job.runs, text)
            job.ended.append(report)
            if len(job.ended) == job.ending:
                self.keep(job)
        elif isinstance(report, Warned):
            self.say_once(job.runs, report.text)
        elif isinstance(report, Saved) and job.runs:
            with write_errors(self.checkpoints.folder):
                self.checkpoints.save([run.id for run in job.runs], report.data)
            self.steps.update(dict.fromkeys((run.id for run in job.runs), report.step))
            job.tries = 0
        elif isinstance(report, Silent) and job.runs:
            minutes = report.seconds / 60
            self.say(
                job.runs,
                f"no report from {len(job.runs)} runs of {job.runs[0].model.title} for {minutes:.0f} minutes: they may be "
                "stuck, or at a long measurement; Ctrl-C and the same command take them up again",
            )
        elif isinstance(report, Broken):
            self.keep(job)
            self.mend(job, report)
        elif isinstance(report, Done):
            self.keep(job)
            if job.runs:
                error = f"training ended without a result of {len(job.runs)} runs of {job.runs[0].model.title}"
                self.mend(job, Broken("error", error, error))

    def keep(self, job: Job) -> None:
        """Write the results of one measurement to the store, in one transaction."""
        if not job.ended:
            return
        self.writer.add_results(job.ended, self.executor.device)
        self.ended.update(ended.status for ended in job.ended)
        ids = {ended.run.id for ended in job.ended}
        self.checkpoints.forget(ids)
        job.runs = [run for run in job.runs if run.id not in ids]
        job.ended = []

    def mend(self, job: Job, broken: Broken) -> None:
        """Handle a cohort that failed: try it again, smaller, or give up the run at fault."""
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
        if broken.why == "timeout":
            self.give_up(runs, broken.error)
        elif len(runs) > 1 and (broken.why == "error" or job.tries >= self.attempts):
            self.say_once(
                runs,
                f"{broken.error}: {len(runs)} runs of {runs[0].model.title} go on as two halves, to find the one at fault",
            )
            self.again(runs[:half], runs[half:])
        elif job.tries < self.attempts:
            self.say_once(runs, f"{broken.error}: trying again")
            self.queue.append(job)
        else:
            self.checkpoints.forget(run.id for run in runs)
            self.give_up(runs, broken.error)

    def give_up(self, runs: list[RunSpec], error: str) -> None:
        """Report runs as failed for good."""
        for run in runs:
            self.writer.give_up(run.id, self.failures[run.id], error)
            self.failed[run.id] = error
            self.watch(runs, Failed(run, error))

    def left(self, runs: Iterable[RunSpec], done: Collection[str]) -> list[RunSpec]:
        """Those of these runs that have neither ended nor failed for good."""
        return [run for run in runs if run.id not in done and run.id not in self.failed]

    def stopped(self, left: Sequence[RunSpec]) -> str:
        """What was kept of these runs, which were left when training stopped."""
        saved = [run.id for run in left if run.id in self.checkpoints.of]
        lost = sum(run.id in self.begun for run in left if run.id not in self.checkpoints.of)
        steps = sorted({self.steps[id] for id in saved if id in self.steps})
        where = f" at step {steps[0]:,}" + (f" to {steps[-1]:,}" if len(steps) > 1 else "") if steps else ""
        ended = self.ended.total()
        counts = {f"in training are kept{where}": len(saved), "have to start anew": lost}
        counts["have not begun"] = len(left) - len(saved) - lost
        parts = [
            f"{ended} run{'s' * (ended != 1)} ended",
            *(f"{count} {what}" for what, count in counts.items() if count),
        ]
        return (
            f"stopped {self.stop.why}: {', '.join(parts)}; the same command continues from here{self.executor.goes_on}"
        )

    def again(self, *cohorts: list[RunSpec]) -> None:
        self.queue.extendleft(Job(cohort) for cohort in reversed(cohorts))

    def say_once(self, runs: list[RunSpec], text: str) -> None:
        if text not in self.shown:
            self.shown.add(text)
            self.say(runs, text)

    def say(self, runs: list[RunSpec], text: str) -> None:
        self.watch(runs, Note(text))
