"""What a view is: it says what can be chosen, turns frames into a table of the numbers to draw, and draws the table."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pandas as pd
import plotly.graph_objects as go

from recollect.analysis.rates import at_best, with_accuracy
from recollect.analysis.window import THRESHOLD
from recollect.spec import SpecError, nearest
from recollect.views.frame import Frame
from recollect.views.style import set_theme

TOP = 12
"""Lines that a chart shows unless more are asked for: those with the best values."""


@dataclass(frozen=True)
class Frames:
    """What views draw: results of one study, or of several, with a column `study` in the runs."""

    runs: Frame
    """As `runs_frame` gives it."""
    curves: Frame = field(default_factory=pd.DataFrame)
    """As `curves_frame` gives it."""
    slices: Frame = field(default_factory=pd.DataFrame)
    """As `slices_frame` gives it."""
    mixing: Frame = field(default_factory=pd.DataFrame)
    """As `mixing_frame` gives it."""
    threshold: float = THRESHOLD
    """The accuracy that counts as solved."""


def prepared(runs: Frame) -> Frame:
    """The runs with a number as the accuracy of each, the column `study`, and `at_best`: whether a run has the best learning
    rate of its configuration."""
    if runs.empty or "at_best" in runs:
        return runs
    known: Frame = (runs if "study" in runs else runs.assign(study="")).reset_index(drop=True)
    return with_accuracy(known).assign(at_best=at_best(known, ["study", "configuration"]))


@dataclass(frozen=True)
class Choice:
    """One setting of a view that a user can choose."""

    name: str
    label: str
    options: Mapping[str, str]
    """What there is to choose from, and what it is called."""
    default: str


class View(ABC):
    """A chart. It holds nothing: what is chosen is given with the frames."""

    title: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ("runs",)
    """The frames that it reads."""
    kind: ClassVar[str] = "figure"
    """How an HTML page draws it: `lines`, `grid` and `parallel` are drawn again from the table `source` whenever something is
    chosen; of any other view the page holds one figure for each option of its first choice."""
    source: ClassVar[str] = "runs"
    about: ClassVar[str] = ""
    """The text under the chart; `{threshold}` stands for the accuracy that counts as solved."""

    @abstractmethod
    def choices(self, frames: Frames) -> list[Choice]:
        """What can be chosen with these frames; empty where there is nothing to draw."""

    @abstractmethod
    def table(self, frames: Frames, chosen: dict[str, str]) -> Frame:
        """The numbers that are drawn."""

    @abstractmethod
    def draw(self, table: Frame, frames: Frames, chosen: dict[str, str]) -> go.Figure:
        """The drawing of the table, in no theme yet."""

    def caption(self, frames: Frames) -> str:
        """The text under the chart."""
        return self.about.format(threshold=frames.threshold)

    def chosen(self, frames: Frames, asked: Mapping[str, Any]) -> dict[str, str]:
        """Every choice: what was asked, or its default. What is not offered is refused, where there is something to draw."""
        offered = {choice.name: choice for choice in self.choices(frames)}
        for name, value in asked.items() if offered else ():
            if name not in offered:
                raise SpecError(f"{self.title}: {name!r} cannot be chosen: {nearest(name, offered)}")
            if str(value) not in offered[name].options:
                raise SpecError(f"{self.title}: {name} {value!r}: {nearest(str(value), offered[name].options)}")
        return {name: str(asked.get(name, choice.default)) for name, choice in offered.items()}

    def figure(self, frames: Frames, *, title: str = "", theme: str = "light", **asked: Any) -> go.Figure:
        """The figure, as it is chosen."""
        frames = replace(frames, runs=prepared(frames.runs))
        return self.drawn(frames, self.chosen(frames, asked), theme, title)

    def drawn(self, frames: Frames, chosen: dict[str, str], theme: str = "light", title: str = "") -> go.Figure:
        """The figure of prepared runs, or of some of those that every choice was offered for."""
        if not chosen or any(getattr(frames, kind).empty for kind in self.needs):
            figure = go.Figure().add_annotation(text="nothing to draw yet", showarrow=False)
            return set_theme(figure.update_xaxes(visible=False).update_yaxes(visible=False), theme, title)
        return set_theme(self.draw(self.table(frames, chosen), frames, chosen), theme, title)
