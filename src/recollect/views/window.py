"""Accuracy against learning rate: the mean, the band over seeds, and the windows as bars under it."""

import numpy as np
import plotly.graph_objects as go

from recollect.analysis.window import ZOOLOGY_RATES, windows
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
        figure.add_hline(y=frames.threshold, line={"width": 1, "dash": "dot"})
        low, high = np.log10([table["x"].min(), table["x"].max()]) if len(table) else (-4, -2)
        if chosen["xscale"] != "linear":
            figure.update_xaxes(range=[low - 0.06, high + 0.06])
        for rate in (rate for rate in ZOOLOGY_RATES if low - 0.05 <= np.log10(rate) <= high + 0.05):
            figure.add_vline(x=rate, line={"width": 1, "dash": "2px,4px"}, opacity=0.6)
        if chosen["lines"] == "configuration":
            _add_bars(figure, frames, list(dict.fromkeys(table["line"])))
        return figure

    def caption(self, frames: Frames) -> str:
        return (
            f"Line: mean; band: lowest to highest run. Bars under the curves: the windows, where the mean is at least "
            f"{frames.threshold:g}; dashed: the four rates of Zoology. A run that diverged before it was measured counts as 0."
        )


def _add_bars(figure: go.Figure, frames: Frames, lines: list[str]) -> None:
    """The windows as bars in a strip under the curves."""
    runs = frames.runs.assign(line=lines_of(frames.runs, "configuration"))
    runs = runs.loc[runs["line"].isin(lines)]
    found = windows(runs, by="line", threshold=frames.threshold, resamples=1).set_index("line").to_dict("index")
    look = looks(lines)
    lines = [line for line in lines if found[line]["decades"] > 0]
    for i, line in enumerate(lines):
        edges, name = [found[line]["low"], found[line]["high"]], text(line)
        about = f"window: {found[line]['decades']:.3g} decades, {edges[0]:.3g} to {edges[1]:.3g}"
        figure.add_scatter(x=edges, y=[-i, -i], yaxis="y2", mode="lines", line={"width": 6}, name=name, legendgroup=name,
                           meta={"colour": look[line]["colour"]}, showlegend=False, text=about,
                           hovertemplate="%{text}<extra></extra>",
                           opacity=look[line]["opacity"])  # fmt: skip
    height = BAR * (len(lines) + 1)
    figure.update_layout(
        yaxis={"domain": [height + 0.01, 1]}, xaxis={"anchor": "y2"},
        yaxis2={"domain": [0, height], "range": [-len(lines) + 0.3, 0.7], "visible": False, "fixedrange": True},
    )  # fmt: skip
    figure.update_yaxes(tickvals=np.linspace(0, 1, 6), selector=0)
