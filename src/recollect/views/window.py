"""Accuracy against learning rate: the mean, the band over seeds, and the windows as bars under it."""

from typing import Any

import numpy as np
import plotly.graph_objects as go

from recollect.analysis.window import ZOOLOGY_RATES, window
from recollect.views.base import Choice, Frames, View
from recollect.views.draw import best_lines, line_figure, summarised
from recollect.views.fields import choose, groupings, lines_of, measures, scales, text, top
from recollect.views.frame import Frame
from recollect.views.style import looks

BAR = 0.022
"""Height that a window's bar takes of the chart."""


class Window(View):
    """The learning-rate window."""

    title = "Learning-rate window"
    kind = "lines"
    about = (
        "Line: mean; band: lowest to highest run. Bars under the curves: the windows, where the mean is at least "
        "{threshold:g}; dotted: the four rates of Zoology. A run that diverged before it was measured counts as 0."
    )

    def choices(self, frames: Frames) -> list[Choice]:
        if frames.runs.empty or frames.runs["train.lr"].nunique() < 2:
            return []
        lines = [name for name in groupings(frames.runs) if name != "train.lr"]
        return [choose("x", "x", ["train.lr"]), choose("y", "y", measures(frames.runs), "accuracy"),
                choose("lines", "lines", lines), top(), *scales()]  # fmt: skip

    def table(self, frames: Frames, chosen: dict[str, str]) -> Frame:
        runs, y = frames.runs, chosen["y"]
        return best_lines(summarised(lines_of(runs, chosen["lines"]), runs["train.lr"], runs[y]), chosen["top"], y)

    def draw(self, table: Frame, frames: Frames, chosen: dict[str, str]) -> go.Figure:
        figure = line_figure(table, chosen, "train.lr", chosen["y"])
        if chosen["y"] != "accuracy":
            return figure
        figure.update_layout(shapes=rules(table["x"], frames.threshold))
        if chosen["lines"] == "configuration":
            _add_bars(figure, table, frames.threshold)
        return figure


def rules(rates: Frame, threshold: float) -> list[dict[str, Any]]:
    """The threshold as a line, and so the rates of Zoology that lie within those tried."""

    def rule(axis: str, at: float, dash: str, **look: Any) -> dict[str, Any]:
        other = "y" if axis == "x" else "x"
        ends = {f"{axis}0": at, f"{axis}1": at, f"{other}ref": "paper", f"{other}0": 0, f"{other}1": 1}
        return {"type": "line", **ends, "line": {"dash": dash}, **look}

    within = [rate for rate in ZOOLOGY_RATES if len(rates) and rates.min() <= 1.1 * rate and rate <= 1.1 * rates.max()]
    return [rule("y", threshold, "dot"), *(rule("x", rate, "2px,4px", opacity=0.6) for rate in within)]


def about(decades: float, low: float, high: float) -> str:
    """A window in words."""
    return f"window: {decades:.3g} decades, {low:.3g} to {high:.3g}"


def _add_bars(figure: go.Figure, table: Frame, threshold: float) -> None:
    """The windows of the mean curves as bars in a strip under them."""
    curves = {str(name): own for name, own in table.groupby("line", sort=False)}
    look = looks(list(curves))
    found = {name: window(own["x"], own["mean"], threshold) for name, own in curves.items()}
    lines = [name for name in found if found[name].decades > 0]
    bars = []
    for i, line in enumerate(lines):
        edges, name = [found[line].low, found[line].high], text(line)
        words = about(found[line].decades, *edges)
        bars.append({
            "type": "scatter", "x": edges, "y": [-i, -i], "yaxis": "y2", "mode": "lines", "line": {"width": 6}, "name": name,
            "legendgroup": name, "meta": {"colour": look[line]["colour"]}, "showlegend": False, "text": words,
            "hovertemplate": "%{text}<extra></extra>", "opacity": look[line]["opacity"],
        })  # fmt: skip
    figure.add_traces(bars)
    height = BAR * (len(lines) + 1)
    figure.update_layout(
        yaxis={"domain": [height + 0.01, 1]}, xaxis={"anchor": "y2"},
        yaxis2={"domain": [0, height], "range": [-len(lines) + 0.3, 0.7], "visible": False, "fixedrange": True},
    )  # fmt: skip
    figure.update_yaxes(tickvals=np.linspace(0, 1, 6), selector=0)
