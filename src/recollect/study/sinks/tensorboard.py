"""Curves to TensorBoard."""

import re
from pathlib import Path
from typing import Any

from recollect.study.sinks.base import Sink, missing
from recollect.train.events import Ended, Measured
from recollect.train.spec import RunSpec


class TensorBoard(Sink):
    """One folder per run under `folder/study`: accuracy while it trains, everything else when it has ended."""

    def __init__(self, folder: str | Path, study: str):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise missing("tensorboard") from None
        self._make, self._folder, self._open = SummaryWriter, Path(folder) / study, dict[str, Any]()

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
            title = re.sub(r"[^\w.-]", "_", run.model.title)
            name = f"{title}-lr{run.train.lr:.3g}-seed{run.train.seed}-{run.id}"
            self._open[run.id] = self._make(str(self._folder / name))
        return self._open[run.id]
