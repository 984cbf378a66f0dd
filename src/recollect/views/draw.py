"""The drawings that views share: lines with bands, and grids of colours."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from recollect.analysis.columns import is_share, logarithmic
from recollect.views.fields import plain, text, value_text
from recollect.views.frame import Frame
from recollect.views.style import looks

FEW = 9
"""Values that an axis names one by one, at most."""
ROUND = [digit * 10**power if power >= 0 else digit / 10**-power for power in range(-9, 13) for digit in (1, 2, 5)]
"""Where a logarithmic axis has ticks if its values are too many to be named."""
MANY = 40
"""Points of a line above which it has no markers."""
LINES = ["line", "x", "mean", "low", "high", "count"]
"""The columns of a table of lines."""
COLUMNS = {"type": "category", "showgrid": False}
ROWS = {**COLUMNS, "autorange": "reversed"}
"""The axes of a grid of colours."""
HOVER = "<b>%{fullData.name}</b><br>%{x}: <b>%{y:.4g}</b><br>%{customdata}<extra></extra>"


def summarised(line: Sequence, x: Sequence, y: Sequence) -> Frame:
    """One row per line and x: the mean, the lowest and the highest y, and how many there were; x ascends, what is NaN is left
    out, lines keep the order of their first rows."""
    rows = pd.DataFrame({"line": list(line), "x": list(x), "y": np.asarray(y, float)}).dropna()
    if rows.empty:
        return pd.DataFrame(columns=LINES)
    order = {name: i for i, name in enumerate(dict.fromkeys(rows["line"]))}
    table = rows.groupby(["line", "x"])["y"].agg(["mean", "min", "max", "count"]).reset_index().set_axis(LINES, axis=1)
    return table.sort_values("x").sort_values(
        "line", key=lambda names: names.map(order), kind="stable", ignore_index=True
    )


def best_lines(table: Frame, top: str, y: str) -> Frame:
    """The lines with the best values (`all`: every one): the highest, or the lowest of a loss, a time or a step."""
    if top == "all" or table["line"].nunique() <= int(top):
        return table
    means = table.groupby("line", sort=False)["mean"]
    score = means.min() if is_cost(y) else -means.max()
    kept = set(score.sort_values(kind="stable").index[: int(top)])
    return table.loc[table["line"].isin(list(kept))].reset_index(drop=True)


def is_cost(measure: str) -> bool:
    """Whether less of a measure is better."""
    return "loss" in measure or measure in ("step", "best_step", "seconds", "train.lr")


def line_figure(table: Frame, chosen: dict[str, str], x: str, y: str, single: bool = False) -> go.Figure:
    """A line per name, a band from the lowest to the highest value, and axes by what they show. `single`: a line per run,
    whose ids are in the column `run`."""
    traces: list[dict[str, Any]] = []  # as plain data: Plotly takes ten times as long to add them one by one
    parts = {str(name): own for name, own in table.groupby("line", sort=False)}
    for name, look in looks(list(parts)).items():
        shared = {"type": "scatter", "name": text(name), "legendgroup": text(name), "meta": {"colour": look["colour"]}}
        if single:
            for k, (run, part) in enumerate(parts[name].groupby("run", sort=False)):
                line = _line(part, look, 1.2, [f"run {run}"] * len(part))
                traces.append(line | shared | {"mode": "lines", "showlegend": k == 0})
            continue
        at, low, high, count = (parts[name][column].tolist() for column in ("x", "low", "high", "count"))
        if low != high:
            band = {"x": [*at, *at[::-1]], "y": [*high, *low[::-1]], "mode": "lines", "line": {"width": 0}}
            traces.append(shared | band | {"fill": "toself", "showlegend": False, "hoverinfo": "skip"})
        traces.append(_line(parts[name], look, 2, list(map(_about, low, high, count))) | shared)
    figure = go.Figure(traces).update_xaxes(x_axis(x, table["x"], chosen["xscale"]))
    return figure.update_yaxes(y_axis(y, chosen["yscale"]))


def x_axis(name: str, values: Frame, asked: str = "auto") -> dict[str, Any]:
    """The axis of a field or a size: its scale is what was asked for, or what suits the values; few of them are named."""
    suited = "category" if values.dtype == object else "log" if logarithmic(values) else "linear"
    kind = suited if asked == "auto" else asked
    known = sorted(values.unique().tolist()) if suited == kind == "log" else []
    gaps = np.diff(np.log(known)) if known else np.ones(1)
    if len(known) > FEW or gaps.min() < gaps.sum() / 14:  # they would be written over each other
        known = [value for value in ROUND if known[0] <= value <= known[-1]] if known[-1] < 100 * known[0] else []
    return {"title": {"text": text(plain(name))}, "type": kind, **(_named(known) if known else {})}


def y_axis(name: str, asked: str = "auto") -> dict[str, Any]:
    """The axis of a measure: linear unless it is a rate, or another scale is asked for."""
    kind = asked if asked != "auto" else "log" if name == "train.lr" else "linear"
    ends = {"range": [-0.03, 1.04]} if is_share(name) and kind == "linear" else {}
    ticks = _named(ROUND) if name == "train.lr" and kind == "log" else {}
    return {"title": {"text": text(plain(name))}, "type": kind, **ends, **ticks}


def _named(values: Sequence[float]) -> dict[str, Any]:
    """Ticks that are written out; without them a logarithmic axis writes most as single digits."""
    return {"tickvals": values, "ticktext": [value_text(value) for value in values]}


def _line(points: Frame, look: dict[str, Any], width: float, about: list[str]) -> dict[str, Any]:
    """A line through some points, with the hover text of each."""
    return {
        "x": points["x"].tolist(), "y": points["mean"].tolist(), "mode": "lines" if len(points) > MANY else "lines+markers",
        "hovertemplate": HOVER, "customdata": about, "opacity": look["opacity"],
        "line": {"width": width, "dash": look["dash"]}, "marker": {"size": 7, "symbol": look["symbol"]},
    }  # fmt: skip


def linear(chosen: dict[str, str]) -> dict[str, str]:
    """The choices with a linear x axis unless another is asked for."""
    return chosen | {"xscale": "linear" if chosen["xscale"] == "auto" else chosen["xscale"]}


def grid_figure(matrix: Frame, x: str, y: str, value: str, share: bool) -> go.Figure:
    """A matrix as a grid of colours, its index downwards and its columns along."""
    figure = go.Figure(
        go.Heatmap(
            z=matrix.to_numpy(float), x=[text(v) for v in matrix.columns], y=[text(v) for v in matrix.index],
            zmin=0 if share else None, zmax=1 if share else None, colorbar={"title": {"text": text(value)}},
            hovertemplate=f"{text(plain(y))} %{{y}}<br>{text(plain(x))} %{{x}}<br><b>%{{z:.4g}}</b><extra></extra>",
        )
    )  # fmt: skip
    return figure.update_xaxes(COLUMNS, title_text=text(plain(x))).update_yaxes(ROWS, title_text=text(plain(y)))


def _about(low: float, high: float, count: float) -> str:
    return f"{low:.4g} to {high:.4g} over {count:.0f} runs" if count > 1 else "1 run"
