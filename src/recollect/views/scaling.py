"""Accuracy against size: state, parameters, width, pairs, length, or any field that is a number."""

import pandas as pd
import plotly.graph_objects as go

from recollect.views.base import Choice, Frames, View
from recollect.views.draw import best_lines, line_figure, summarised
from recollect.views.fields import axes, choose, groupings, lines_of, measures, scales, top

RATES = Choice("rate", "learning rate", {"best": "best of each", "all": "all"}, "best")


class Scaling(View):
    """Accuracy against size."""

    title = "Accuracy against size"
    kind = "lines"

    def choices(self, frames: Frames) -> list[Choice]:
        found = [] if frames.runs.empty else [name for name in axes(frames.runs) if name != "train.lr"]
        if not found:
            return []
        lines = groupings(frames.runs)
        return [choose("x", "x", found), choose("y", "y", measures(frames.runs), "accuracy"),
                choose("lines", "lines", lines, "model.mixer" if "model.mixer" in lines else "model"), RATES, top(), *scales()]  # fmt: skip

    def table(self, frames: Frames, chosen: dict[str, str]) -> pd.DataFrame:
        runs = frames.runs if chosen["rate"] == "all" else frames.runs.loc[frames.runs["at_best"]]
        table = summarised(lines_of(runs, chosen["lines"]), runs[chosen["x"]], runs[chosen["y"]])
        return best_lines(table, chosen["top"], chosen["y"])

    def draw(self, table: pd.DataFrame, frames: Frames, chosen: dict[str, str]) -> go.Figure:
        return line_figure(table, chosen, chosen["x"], chosen["y"])

    def caption(self, frames: Frames) -> str:
        return "Line: mean; band: lowest to highest run. Each configuration is shown at its own best learning rate unless all are asked for."
