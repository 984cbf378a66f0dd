"""Mixing matrices: how much each token reads of every earlier one."""

import plotly.graph_objects as go

from recollect.views.base import Choice, Frames, View
from recollect.views.draw import grid_figure
from recollect.views.frame import Frame


class Mixing(View):
    """Mixing matrices, as `inspect.mixing.mixing_frame` gives them."""

    title = "Mixing matrices"
    needs = ("mixing",)
    about = "How much a token (row) reads of each earlier one (column), in one row of the task: mean over heads or channels."

    def choices(self, frames: Frames) -> list[Choice]:
        if frames.mixing.empty:
            return []
        names = list(dict.fromkeys(frames.mixing["matrix"]))
        return [Choice("matrix", "of", {name: name for name in names}, names[0])]

    def table(self, frames: Frames, chosen: dict[str, str]) -> Frame:
        own = frames.mixing.loc[frames.mixing["matrix"] == chosen["matrix"]]
        return own.pivot_table(index="token", columns="reads", values="size")

    def draw(self, table: Frame, frames: Frames, chosen: dict[str, str]) -> go.Figure:
        figure = grid_figure(table, "reads", "token", "size", False).update_traces(xgap=0, ygap=0)
        return figure.update_yaxes(scaleanchor="x", constrain="domain").update_xaxes(constrain="domain")
