"""Where else curves may go while a study runs: TensorBoard, Weights & Biases. The store stays the truth.

A sink is told what happens. One that fails is left out from then on, with a warning: it never stops a study.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recollect.spec import SpecError
from recollect.train.events import Ended, Measured
from recollect.train.spec import RunSpec


class Sink(ABC):
    """Takes note of the events of a study."""

    @abstractmethod
    def event(self, cohort: list[RunSpec], event: object) -> None:
        """Something happened to a cohort; events that a sink does not know are none of its business."""

    @abstractmethod
    def close(self) -> None:
        """No more events come."""


class TensorBoard(Sink):
    """One folder a run under `folder/study`: accuracy while it trains, everything else when it has ended."""

    def __init__(self, folder: Path, study: str):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise _missing("tensorboard") from None
        self._make, self._folder, self._open = SummaryWriter, folder / study, dict[str, Any]()

    def event(self, cohort: list[RunSpec], event: object) -> None:
        """Write what is new."""
        if isinstance(event, Measured):
            runs = {run.id: run for run in cohort}
            for id, accuracy in event.accuracy.items():
                self._writer(runs[id]).add_scalar("accuracy", accuracy, event.step)
        elif isinstance(event, Ended):
            writer = self._writer(event.run)
            for point in event.curve:
                for name, value in point.items():
                    if name not in ("accuracy", "step"):
                        writer.add_scalar(name, value, int(point["step"]))
            for name, value in event.final.items():
                writer.add_scalar(f"final/{name}", value, event.step)
            writer.add_text("specification", f"```\n{event.run.model_dump_json(indent=1)}\n```", event.step)
            writer.add_text("status", event.status, event.step)
            self._open.pop(event.run.id).close()

    def close(self) -> None:
        """Close the files of the runs that have not ended."""
        while self._open:
            self._open.popitem()[1].close()

    def _writer(self, run: RunSpec) -> Any:
        if run.id not in self._open:
            name = f"{_file_name(run.model.title)}-lr{run.train.lr:.3g}-seed{run.train.seed}-{run.id}"
            self._open[run.id] = self._make(str(self._folder / name))
        return self._open[run.id]


class WeightsAndBiases(Sink):
    """One W&B run for each run that has ended, grouped by study. `WANDB_MODE=offline` keeps it on this machine."""

    def __init__(self, project: str, study: str):
        try:
            import wandb
        except ImportError:
            raise _missing("wandb") from None
        self._wandb, self._project, self._study = wandb, project, study

    def event(self, cohort: list[RunSpec], event: object) -> None:
        """Hand over a run that ended, with its whole curve."""
        if not isinstance(event, Ended):
            return
        run = event.run
        there = self._wandb.init(
            project=self._project, group=self._study, id=f"{self._study}-{run.id}", resume="allow",
            name=f"{run.model.title} lr={run.train.lr:.3g} seed={run.train.seed}", config=run.model_dump(mode="json"),
            settings=self._wandb.Settings(silent=True, console="off", disable_git=True),
        )  # fmt: skip
        for point in event.curve:
            there.log({name: value for name, value in point.items() if name != "step"}, step=int(point["step"]))
        there.summary.update({f"final/{name}": value for name, value in event.final.items()})
        there.summary.update({"status": event.status, "ended_at": event.step, "parameters": event.parameters})
        there.finish()

    def close(self) -> None:
        """Every run was handed over whole."""


class Sinks:
    """Several sinks as one; use as a context manager."""

    def __init__(self, sinks: Sequence[Sink]):
        self._sinks = list(sinks)

    def event(self, cohort: list[RunSpec], event: object) -> None:
        """Tell every sink that still works."""
        for sink in list(self._sinks):
            try:
                sink.event(cohort, event)
            except Exception as error:
                self._sinks.remove(sink)
                _warn(sink, error)

    def __enter__(self) -> "Sinks":
        return self

    def __exit__(self, *_: object) -> None:
        for sink in self._sinks:
            try:
                sink.close()
            except Exception as error:
                _warn(sink, error)


def open_sinks(study: str, tensorboard: Path | None = None, wandb: str | None = None) -> Sinks:
    """The sinks that were asked for."""
    sinks: list[Sink] = []
    if tensorboard is not None:
        sinks.append(TensorBoard(tensorboard, study))
    if wandb is not None:
        sinks.append(WeightsAndBiases(wandb, study))
    return Sinks(sinks)


def _missing(extra: str) -> SpecError:
    return SpecError(f'{extra} is not installed: pip install "recollect[{extra}]"')


def _warn(sink: Sink, error: Exception) -> None:
    problem = f"{type(error).__name__}: {error}".splitlines()[0]
    warnings.warn(
        f"{type(sink).__name__} is left out from here on ({problem}); results are kept in the store", stacklevel=3
    )


def _file_name(text: str) -> str:
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in text)
