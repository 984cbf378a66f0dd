"""What a person sees while a study runs: a live bar in a terminal, plain lines elsewhere."""

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from recollect.study.run import Failed, Note
from recollect.train.events import Ended, Measured
from recollect.train.spec import RunSpec

_QUIET = 10.0
"""Seconds between plain lines."""


class StudyProgress:
    """Watches a study's events; use as a context manager and hand `watch` to the runner."""

    def __init__(self, runs: list[RunSpec], done: set[str], console: Console):
        self.console = console
        self.total = len(runs)
        self.ended = sum(run.id in done for run in runs)
        self.left = {run.id: run.train.total_steps for run in runs if run.id not in done}  # steps still to do
        self.steps = self.steps_left = sum(self.left.values())
        self.best: tuple[float, str] = (0.0, "")
        self.started = self.spoken = time.monotonic()
        self.bar = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=None), TextColumn("{task.fields[runs]}"),
            TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(elapsed_when_finished=False),
            TextColumn("{task.fields[best]}"), console=console, transient=False,
        )  # fmt: skip
        self.live = console.is_terminal

    def __enter__(self) -> "StudyProgress":
        if self.live:
            self.row = self.bar.add_task("training", total=self.steps or 1, runs=self._runs(), best="")
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.bar.stop()

    def watch(self, cohort: list[RunSpec], event: Ended | Measured | Failed | Note) -> None:
        """Take note of an event."""
        if isinstance(event, Note):
            self.console.print(event.text, markup=False)
        elif isinstance(event, Measured):
            for id, accuracy in event.accuracy.items():
                self._leave(id, event.steps - event.step)
                if accuracy > self.best[0]:
                    self.best = accuracy, next(run.model.title for run in cohort if run.id == id)
        elif isinstance(event, Ended):
            self._leave(event.run.id, 0)
            self.ended += 1
        else:
            self._leave(event.run.id, 0)
            self.console.print(f"failed: run {event.run.id} ({event.run.model.title}): {event.error}", markup=False)
        self._say()

    def _leave(self, run: str, steps: int) -> None:
        self.steps_left += steps - self.left[run]
        self.left[run] = steps

    def _say(self) -> None:
        share = 1 - self.steps_left / (self.steps or 1)
        best = f"best {self.best[0]:.3f} {self.best[1]}" if self.best[1] else ""
        if self.live:
            self.bar.update(self.row, completed=self.steps - self.steps_left, runs=self._runs(), best=best)
            return
        now = time.monotonic()
        if now - self.spoken >= _QUIET or self.ended == self.total:
            self.spoken = now
            elapsed = now - self.started
            eta = f", about {_clock(elapsed / share - elapsed)} left" if 0 < share < 1 else ""
            self.console.print(
                f"{self._runs()}, {share:.0%} of the steps, {_clock(elapsed)}{eta}  {best}", markup=False
            )

    def _runs(self) -> str:
        return f"{self.ended} of {self.total} runs"


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
