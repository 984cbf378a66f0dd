"""The results of some studies: counts, tables, pictures, a report. It displays as a table in a notebook."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from recollect.analysis.rates import at_best
from recollect.analysis.summary import summary
from recollect.analysis.window import windows
from recollect.store import frames
from recollect.store.store import Store
from recollect.study.search.base import Searched
from recollect.study.spec import Study

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from recollect.figures.style import Picture

SHOWN = 20
"""Rows that a notebook shows."""


@dataclass(frozen=True)
class Outcome:
    """Studies that have been run, and where their results are."""

    studies: tuple[Study, ...]
    store: Store
    runs: int
    """How many runs they have, each counted once; of a search, those it asked for."""
    reused: int = 0
    """Runs that the store had before."""
    ended: Counter[str] = field(default_factory=Counter)
    """Runs trained now, by how they ended."""
    failed: dict[str, str] = field(default_factory=dict)
    """Runs that failed for good, now or before: id and error."""
    searches: dict[str, Searched] = field(default_factory=dict)
    """The result of each study's search, where it has one."""
    left: tuple[str, ...] = ()
    """Those of the failed runs that had failed before, and were not tried again."""

    @property
    def names(self) -> list[str]:
        """The studies' names."""
        return [study.name for study in self.studies]

    @property
    def threshold(self) -> float:
        """The accuracy that counts as solved."""
        return self.studies[0].threshold

    def results(self, columns: Literal["varying", "all"] = "varying") -> pd.DataFrame:
        """One row per run: `varying` has the fields in which the runs differ, `all` has every field."""
        return frames.of_studies(frames.runs_frame, self.store, self.names, columns=columns)

    def windows(self, threshold: float | None = None) -> pd.DataFrame:
        """One row per configuration: its learning-rate window, its best rate, and how both vary with the seeds."""
        return windows(self.results("all"), threshold=self.threshold if threshold is None else threshold)

    def summary(self, threshold: float | None = None) -> pd.DataFrame:
        """One row per configuration: best rate, accuracy, window with its interval, steps to learn, state size, parameters."""
        runs = self.results("all")
        curves = frames.curves_frame(self.store, runs=list(runs.loc[at_best(runs), "id"])) if len(runs) else runs
        return summary(runs, curves, self.threshold if threshold is None else threshold)

    def curves(self) -> pd.DataFrame:
        """One row per run and measurement."""
        return frames.of_studies(frames.curves_frame, self.store, self.names)

    def slices(self) -> pd.DataFrame:
        """One row per run, measurement, tag and value of the tag."""
        return frames.of_studies(frames.slices_frame, self.store, self.names)

    def plot(self, view: str = "window", title: str = "", theme: str = "light", **choices: Any) -> "go.Figure":
        """A chart as a Plotly figure, which a notebook shows: `window`, `curves`, `scaling`, `heatmap`, `tags`, `parallel`,
        `best_rate`, or a view of your own. `choices` are what the view offers, such as x="state_size" or y="final.loss"."""
        from recollect.views import VIEWS
        from recollect.views.base import Frames

        found = VIEWS.find(view)()
        curves = self.curves() if "curves" in found.needs else pd.DataFrame()
        slices = self.slices() if "slices" in found.needs else pd.DataFrame()
        frames = Frames(self.results("all"), curves, slices, threshold=self.threshold)
        return found.figure(frames, title=title or ", ".join(self.names), theme=theme, **choices)

    def picture(self, title: str = "") -> "Picture":
        """Accuracy against learning rate, with the windows, as a matplotlib figure for a file."""
        from recollect.figures.window import window_caption, window_figure

        frame = self.results("all")
        return window_figure(
            frame, title or ", ".join(self.names), window_caption(frame, self.threshold), self.threshold
        )

    def report(self, to: str | Path = "report.html") -> Path:
        """Write one HTML file with everything there is to see, and return its path."""
        from recollect.reporting import report

        return report(self.store, self.names, to)

    def __repr__(self) -> str:
        trained = ", ".join(f"{count} {status}" for status, count in sorted(self.ended.items())) or "none trained now"
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return (
            f"Outcome({', '.join(self.names)}: {self.runs} runs, {self.reused} reused, {trained}{failed}; "
            f"results in {self.store.path})"
        )

    def _repr_html_(self) -> str:
        frame = self.results("all")
        if frame.empty:
            return f"<p>{self!r}</p>"
        if len(set(frame["train.lr"])) > 1:
            names = ["configuration", "best", "best_lr", "decades", "low", "high", "checkpoint_decades", "sensitivity"]
            shown = self.windows()[[*names, "diverged", "seeds"]]
        else:
            shown = self.results()
        more = f"<p>{len(shown) - SHOWN} more rows</p>" if len(shown) > SHOWN else ""
        text = shown.head(SHOWN).to_html(index=False, float_format=lambda x: f"{x:.3g}", escape=True)
        note = f"{self.runs} runs of {', '.join(self.names)}, {self.reused} of them done before"
        failed = f"; {len(self.failed)} failed" if self.failed else ""
        return f"{text}{more}<p>{note}{failed}. Results in {self.store.path}</p>"
