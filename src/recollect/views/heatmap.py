"""A measure over any two fields."""

import pandas as pd
import plotly.graph_objects as go

from recollect.analysis.columns import is_share
from recollect.views.base import Choice, Frames, View
from recollect.views.draw import grid_figure
from recollect.views.fields import choose, groupings, lines_of, measures, plain
from recollect.views.frame import Frame

SIZE = 60
"""Rows and columns at most."""


class Heatmap(View):
    """Every cell of a grid."""

    title = "Heatmap"
    kind = "grid"
    about = f"Mean over the runs of a cell; blank: no run. At most {SIZE} rows and columns."

    def choices(self, frames: Frames) -> list[Choice]:
        fields = [] if frames.runs.empty else groupings(frames.runs)
        several = [name for name in fields if frames.runs[name].nunique(dropna=False) > 1]
        if not several:
            return []
        fields = [*several, *(name for name in fields if name not in several), "train.seed"]
        x = "train.lr" if "train.lr" in several else next((name for name in several if name != fields[0]), fields[-1])
        rate = Choice("rate", "learning rate", {"all": "all", "best": "best of each"}, "all")
        return [choose("x", "columns", fields, x), choose("lines", "rows", fields, "configuration"),
                choose("y", "colour", measures(frames.runs), "accuracy"), rate]  # fmt: skip

    def table(self, frames: Frames, chosen: dict[str, str]) -> Frame:
        runs = frames.runs if chosen["rate"] == "all" else frames.runs.loc[frames.runs["at_best"]]
        cells = pd.DataFrame({"line": lines_of(runs, chosen["lines"]), "x": runs[chosen["x"]], "y": runs[chosen["y"]]})
        matrix = cells.pivot_table(index="line", columns="x", values="y", aggfunc="mean", sort=False)
        rows = list(dict.fromkeys(cells["line"]))
        columns = list(dict.fromkeys(cells["x"].dropna()))
        return matrix.reindex(index=rows, columns=sorted(columns, key=order)).iloc[:SIZE, :SIZE]

    def draw(self, table: Frame, frames: Frames, chosen: dict[str, str]) -> go.Figure:
        return grid_figure(table, chosen["x"], chosen["lines"], plain(chosen["y"]), is_share(chosen["y"]))


def order(value: object) -> tuple:
    """What values of a field are sorted by: numbers, then texts, then what is missing."""
    if value != value:
        return 2, 0, str(value)
    return (0, value, "") if isinstance(value, int | float) else (1, 0, str(value))
