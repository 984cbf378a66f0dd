"""What the user sees while a study runs: a live bar in a terminal or a notebook, plain lines elsewhere."""

import html
import time
from collections.abc import Collection, Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from recollect.study.queue import step_seconds
from recollect.study.sinks.base import Sink
from recollect.study.trainer import Failed, Note
from recollect.train.events import Ended, Measured
from recollect.train.spec import RunSpec

_LINES, _UPDATES = 10.0, 0.5
"""Seconds between plain lines, and between updates of a notebook."""
_MEANINGFUL = 0.02
"""The share of the work after which an estimate of the time left is useful."""


class Progress(Sink):
    """Shows how far the runs are, how long they will take, and the best accuracy so far."""

    def __init__(self, console: Console | None = None):
        self.console = console or Console(highlight=False)
        self.where, self.device = "", "cpu"
        self.bar: Bar | None = None
        self.handle: Any = None  # a notebook's place for the bar
        self.announced: set[str] = set()
        self.best: tuple[float, str] = (0.0, "")
        self.errors: set[str] = set()  # those that have been shown
        self.started = time.monotonic()

    def begin(self, studies: Mapping[str, list[RunSpec]], done: Collection[str]) -> None:
        """Say what is about to be trained, and show the bar."""
        self.close()
        for name, runs in studies.items():
            before = sum(run.id in done for run in runs)
            known = f", {before} of them done already" if before else ""
            where = f", {self.where}" if name not in self.announced else ""
            self.announced.add(name)
            self._print(f"study {name}: {len(runs)} runs{known}{where}")
        every = {run.id: run for runs in studies.values() for run in runs}
        self.total, self.ended = len(every), sum(id in done for id in every)
        self.per_step = step_seconds([run for id, run in every.items() if id not in done], self.device)
        self.left = {id: every[id].train.total_steps * step for id, step in self.per_step.items()}  # work still to do
        self.work = self.work_left = sum(self.left.values())
        self.started = self.spoken = time.monotonic()
        self.first: tuple[float, float] | None = (
            None  # when the first measurement at full speed came, and the work left then
        )
        if not self.left:
            return
        if self.console.is_terminal:
            self.bar = Bar(
                TextColumn("{task.description}"), BarColumn(bar_width=None), TextColumn("{task.fields[runs]}"),
                TimeElapsedColumn(),
                TextColumn("{task.fields[left]}"),
                TextColumn("{task.fields[best]}", markup=False), console=self.console, transient=False,
            )  # fmt: skip
            self.row = self.bar.add_task("training", total=self.work, runs=self._runs(), left="", best="")
            self.bar.start()
        elif self.console.is_jupyter:
            from IPython.display import HTML, display  # pyright: ignore[reportMissingImports]

            self.html, self.handle = HTML, display(HTML(self._page()), display_id=True)

    def event(self, cohort: list[RunSpec], event: object) -> None:
        """Take note of an event."""
        if isinstance(event, Note):
            self._print(event.text)
        elif isinstance(event, Measured):
            for id, accuracy in event.accuracy.items():
                self._leave(id, event.steps - event.step)
                if accuracy > self.best[0]:
                    self.best = accuracy, next(run.model.title for run in cohort if run.id == id)
            if self.first is None and event.full_speed:
                self.first = time.monotonic(), self.work_left
        elif isinstance(event, Ended):
            self._leave(event.run.id, 0)
            self.ended += 1
        elif isinstance(event, Failed):
            self._leave(event.run.id, 0)
            if event.error not in self.errors:  # a fault in a model's code fails all of its runs
                self.errors.add(event.error)
                self._print(f"failed: run {event.run.id} ({event.run.model.title}): {event.error}")
        self._show()

    def close(self) -> None:
        """Leave the last state on the screen."""
        if self.bar is not None:
            self.bar.stop()
            self.bar = None
        if self.handle is not None:
            self.handle.update(self.html(self._page()))
            self.handle = None

    def _print(self, text: str) -> None:
        if self.console.is_jupyter:
            print(text)  # rich would make a page of its own of each line
        else:
            self.console.print(text, markup=False, soft_wrap=True)

    def _leave(self, run: str, steps: int) -> None:
        work = steps * self.per_step[run]
        self.work_left += work - self.left[run]
        self.left[run] = work

    def _show(self) -> None:
        if self.bar is not None:
            done = self.work - self.work_left
            self.bar.update(self.row, completed=done, runs=self._runs(), left=self._left(), best=self._best())
            return
        now = time.monotonic()
        if now - self.spoken < (_UPDATES if self.handle is not None else _LINES) and self.ended < self.total:
            return
        self.spoken = now
        if self.handle is not None:
            self.handle.update(self.html(self._page()))
        else:
            self._print(self._line())

    def _line(self) -> str:
        share, elapsed = self._share(), time.monotonic() - self.started
        left = f", {left}" if (left := self._left()) else ""
        return f"{self._runs()}, {share:.0%} of the work, {_clock(elapsed)}{left}  {self._best()}"

    def _left(self) -> str:
        """An estimate of the time left, by the work done since the first measurement at full speed: steps of code that is still
        being compiled take several times as long. Empty until it means something."""
        if self.first is None or not any(self.left.values()):
            return ""
        began, before = self.first
        elapsed, done = time.monotonic() - began, before - self.work_left
        if done < _MEANINGFUL * self.work or elapsed < _LINES:
            return ""
        return f"about {_clock(elapsed * self.work_left / done)} left"

    def _page(self) -> str:
        """A bar as HTML."""
        return (
            f'<progress value="{self._share():.4f}" max="1" style="width: 20em; vertical-align: middle"></progress> '
            f"{html.escape(self._line())}"
        )

    def _share(self) -> float:
        return 1 - self.work_left / (self.work or 1) if any(self.left.values()) else 1.0

    def _best(self) -> str:
        return f"best {self.best[0]:.3f} {self.best[1]}" if self.best[1] else ""

    def _runs(self) -> str:
        return f"{self.ended} of {self.total} runs"


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
