"""Accuracy by a tag of the task (gap, position, ..): at the end of training, or over training."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from recollect.views.base import Choice, Frames, View
from recollect.views.draw import best_lines, grid_figure, line_figure, linear
from recollect.views.fields import lines_of, scales, top
from recollect.views.frame import Frame

VALUES, STEPS = 96, 60
"""Values of a tag at most (more are joined into ranges), and measurements at most."""
END = ""
"""The choice of all configurations at the end of training."""


class Tags(View):
    """Accuracy by tag."""

    title = "Accuracy by tag"
    needs = ("runs", "slices")
    kind = "lines"
    source = "tags"
    about = "Share of right answers by a tag of the task, all seeds at the configuration's best learning rate taken together."

    def choices(self, frames: Frames) -> list[Choice]:
        if frames.slices.empty or frames.runs.empty:
            return []
        tags = list(dict.fromkeys(frames.slices["tag"]))
        grow = frames.slices.groupby("run")["step"].nunique().max() > 1
        who = dict.fromkeys(lines_of(frames.runs, "configuration")) if grow else {}
        first = next((tag for tag in ("gap", "distance", "position") if tag in tags), tags[0])
        return [Choice("tag", "tag", {tag: tag for tag in tags}, first),
                Choice("show", "show", {END: "at the end", **{name: f"{name}, over training" for name in who}}, END),
                top(), *scales()]  # fmt: skip

    def table(self, frames: Frames, chosen: dict[str, str]) -> Frame:
        found = tag_table(frames.runs, frames.slices)
        found = found.loc[found["tag"] == chosen["tag"]]
        if chosen["show"] != END:
            own = found.loc[(found["line"] == chosen["show"]) & ~found["end"]]
            return own.assign(mean=own["right"] / own["count"])
        last = found.loc[found["end"]]
        table = last.assign(x=last["value"], mean=last["right"] / last["count"])
        table = table.assign(low=table["mean"], high=table["mean"])[["line", "x", "mean", "low", "high", "count"]]
        return best_lines(table.reset_index(drop=True), chosen["top"], "accuracy")

    def draw(self, table: Frame, frames: Frames, chosen: dict[str, str]) -> go.Figure:
        if chosen["show"] != END:
            matrix = table.pivot_table(index="step", columns="value", values="mean", sort=False)
            return grid_figure(matrix, chosen["tag"], "step", "accuracy", True)
        figure = line_figure(table, linear(chosen), chosen["tag"], "accuracy")
        return figure.update_traces(hovertemplate="<b>%{fullData.name}</b><br>%{x}: <b>%{y:.4g}</b><extra></extra>")


def tag_table(runs: Frame, slices: Frame) -> Frame:
    """One row per `line` (configuration), tag, step and value: answers scored (`count`) and `right`, summed over its runs at the
    best learning rate. Rows with `end` are of each run's own last measurement, whenever it was; the others are of all runs
    measured at the step. Many measurements are thinned, and many values are joined into ranges, named by their middle."""
    best = runs.loc[runs["at_best"]]
    line = dict(zip(best["id"], lines_of(best, "configuration"), strict=True))
    own = slices.loc[slices["run"].isin(list(line))]
    own = own.assign(line=own["run"].map(line), end=False)
    last = own.loc[own["step"] == own.groupby("run")["step"].transform("max")]
    last = last.assign(step=last.groupby("line")["step"].transform("max"), end=True)
    parts: list[Frame] = [_thinned(part) for _, part in own.groupby("tag", sort=False)]
    if not parts:
        return pd.DataFrame(columns=["line", "tag", "end", "step", "value", "count", "right"])
    whole: Frame = pd.concat([*parts, *(_thinned(part) for _, part in last.groupby("tag", sort=False))])
    table = whole.groupby(["line", "tag", "end", "step", "value"])[["count", "right"]].sum().reset_index()
    order = {name: i for i, name in enumerate(dict.fromkeys(line.values()))}
    table = table.loc[table["count"] > 0].sort_values("line", key=lambda names: names.map(order), kind="stable")
    return table.reset_index(drop=True)


def _thinned(part: Frame) -> Frame:
    """The slices of one tag with at most so many values and steps."""
    values, steps = np.sort(part["value"].unique()), np.sort(part["step"].unique())
    if len(values) > VALUES:
        middle = np.concatenate([np.full(len(some), np.median(some)) for some in np.array_split(values, VALUES)])
        part = part.assign(value=middle[np.searchsorted(values, part["value"])])
    if len(steps) > STEPS:
        part = part.loc[part["step"].isin(steps[np.linspace(len(steps) - 1, 0, STEPS).round().astype(int)])]
    return part
