"""Accuracy against size: state, parameters, width, pairs, length, or any field that is a number."""

import plotly.graph_objects as go

from recollect.views.base import Choice, Frames, View
from recollect.views.draw import best_lines, line_figure, summarised
from recollect.views.fields import axes, choose, groupings, lines_of, measures, scales, top
from recollect.views.frame import Frame

RATES = Choice("rate", "learning rate", {"best": "best of each", "all": "all"}, "best")


class Scaling(View):
    """Accuracy against size."""

    title = "Accuracy against size"
    kind = "lines"
    about = "Line: mean; band: lowest to highest run. Each configuration at its own best rate unless all are asked for."

    def choices(self, frames: Frames) -> list[Choice]:
        found = [] if frames.runs.empty else [name for name in axes(frames.runs) if name != "train.lr"]
        if not found:
            return []
        lines = groupings(frames.runs)
        by = choose("lines", "lines", lines, "model.mixer" if "model.mixer" in lines else "model")
        y = choose("y", "y", measures(frames.runs), "accuracy")
        return [choose("x", "x", found), y, by, RATES, top(), *scales()]

    def table(self, frames: Frames, chosen: dict[str, str]) -> Frame:
        runs = frames.runs if chosen["rate"] == "all" else frames.runs.loc[frames.runs["at_best"]]
        table = summarised(lines_of(runs, chosen["lines"]), runs[chosen["x"]], runs[chosen["y"]])
        return best_lines(table, chosen["top"], chosen["y"])

    def draw(self, table: Frame, frames: Frames, chosen: dict[str, str]) -> go.Figure:
        return line_figure(table, chosen, chosen["x"], chosen["y"])
