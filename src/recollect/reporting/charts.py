"""What a page has to know to draw its charts itself: views, names and looks of lines, axes, templates, windows."""

import json
from typing import Any

import numpy as np
import pandas as pd

from recollect.analysis.columns import is_share
from recollect.spec import finite
from recollect.views import VIEWS
from recollect.views.base import Choice, Frames, View
from recollect.views.draw import COLUMNS, HOVER, MANY, ROWS, is_cost, x_axis, y_axis
from recollect.views.fields import axes, groupings, lines_of, measures, value_text
from recollect.views.frame import Frame
from recollect.views.heatmap import order
from recollect.views.parallel import MARGIN, Parallel, axis
from recollect.views.style import THEMES, colours, looks, template
from recollect.views.window import about, rules

_MEAN = HOVER.replace("%{customdata}", "low %{customdata[3]:.4g}, high %{customdata[4]:.4g}, runs %{customdata[5]}")
_RUN = HOVER.replace("%{customdata}", "run %{customdata[6]}")
_CELL = "%{customdata[0]}<br>%{customdata[1]}<br><b>%{z:.4g}</b><extra></extra>"
_NONE = {"text": "no run fits", "showarrow": False, "xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5}
STYLE: dict[str, Any] = {
    "colours": {theme: colours(theme) for theme in THEMES}, "many": MANY,
    "templates": {theme: template(theme) | {"layout": template(theme)["layout"] | {"showlegend": False}} for theme in THEMES},
    "hover": {"mean": _MEAN, "run": _RUN, "cell": _CELL},
    "none": {"annotations": [_NONE], "xaxis": {"visible": False}, "yaxis": {"visible": False}, "shapes": []},
    "picture": {"size": {"width": 1000, "height": 620}, "legend": {"orientation": "h", "y": -0.16}, "margin": {"t": 48}},
    "config": {"responsive": True, "displaylogo": False, "modeBarButtonsToRemove": ["toImage", "select2d", "lasso2d"]},
}  # fmt: skip


def configurations(runs: Frame) -> list[tuple[str, str]]:
    """The study and the label of each configuration, in the order of the numbers of their lines."""
    return [] if runs.empty else list(dict.fromkeys(zip(runs["study"], runs["configuration"], strict=True)))


def line_kinds(runs: Frame) -> dict[str, dict[str, Any]]:
    """By what lines can stand for: their names and looks, and `of`, the number of each run's line. Configurations are there
    twice: in a chart of one study, and in a chart of several, where the names include the study."""
    if runs.empty:
        return {"configuration": {}}
    pairs = configurations(runs)
    numbers = {pair: i for i, pair in enumerate(pairs)}
    of = [numbers[pair] for pair in zip(runs["study"], runs["configuration"], strict=True)]
    alone = {study: looks([label for own, label in pairs if own == study]) for study, _ in pairs}
    several = list(dict.fromkeys(lines_of(runs, "configuration")))
    found = {
        "configuration": {"of": of, "names": [name for _, name in pairs], "looks": [alone[own][name] for own, name in pairs]},
        "with study": {"of": of, "names": several, "looks": list(looks(several).values())},
    }  # fmt: skip
    for by in [name for name in (*groupings(runs), "train.seed") if name not in found]:
        names = list(dict.fromkeys(map(value_text, sorted(runs[by].unique(), key=order))))
        of = pd.Index(names).get_indexer(lines_of(runs, by)).tolist()
        found[by] = {"of": of, "names": names, "looks": list(looks(names).values())}
    return found


def chart_axes(frames: Frames) -> dict[str, Any]:
    """The axes of every field, size, measure and tag, and those of grids."""
    runs, curves = frames.runs, frames.curves
    across = {name: x_axis(name, runs[name]) for name in (["train.lr", *axes(runs)] if len(runs) else [])}
    across |= {name: x_axis(name, curves[name], "linear") for name in ("step", "examples") if name in curves}
    for tag, part in frames.slices.groupby("tag") if len(frames.slices) else []:
        across[tag] = x_axis(tag, part["value"], "linear")
    up = ["train.lr", "accuracy", *(measures(runs) if len(runs) else []), *curves]
    return {"x": across, "y": {name: y_axis(name) for name in up}, "columns": COLUMNS, "rows": ROWS}


def chart_data(frames: Frames, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What all views share; `rows` are the configurations with their windows."""
    numbers = {pair: i for i, pair in enumerate(configurations(frames.runs))}
    found = chart_axes(frames)
    return {
        "lines": line_kinds(frames.runs), "axes": found, "style": STYLE,
        "shares": list(filter(is_share, found["y"])), "costs": list(filter(is_cost, found["y"])),
        "shapes": rules(frames.runs["train.lr"], frames.threshold) if len(frames.runs) else [],
        "windows": [
            {"study": row["study"], "line": numbers[row["study"], row["configuration"]], "x": [row["low"], row["high"]],
             "text": about(row["decades"], row["low"], row["high"])} for row in rows if row.get("decades")
        ],
    }  # fmt: skip


def page_views(frames: Frames, note: str) -> list[tuple[dict[str, Any], list[Choice]]]:
    """What the page has to know of each view that has something to draw, and what can be chosen of it; `note` is on curves."""
    found = []
    for name in VIEWS:
        view = VIEWS.find(name)()
        choices = view.choices(frames)
        if not choices:
            continue
        if name == "curves" and "weight" in frames.curves:
            choices = [_of_aggregated(choice) for choice in choices]
        caption = f"{view.caption(frames)} {note if name == 'curves' else ''}".strip()
        about = {"name": name, "title": view.title, "kind": view.kind, "source": view.source, "caption": caption}
        found.append((about | _drawn(view, frames), choices))
    return found


def _of_aggregated(choice: Choice) -> Choice:
    """A choice of curves where the page only has those at the best rates, taken together."""
    only = {"show": "band", "rate": "best"}.get(choice.name)
    kept = {
        value: label for value, label in choice.options.items()
        if (value == only if only else not value.endswith((".low", ".high", "weight")))
    }  # fmt: skip
    return Choice(choice.name, choice.label, kept, choice.default)


def _drawn(view: View, frames: Frames) -> dict[str, Any]:
    """The axes of parallel coordinates, and of a view that the page cannot draw itself its figures."""
    if isinstance(view, Parallel):
        fields = list(view.table(frames, {"y": "accuracy"}).columns[1:-1])
        named = (*fields, *measures(frames.runs))
        found = {name: _plain(axis(frames.runs[name], name, name not in fields)) for name in named}
        return {"fields": fields, "axes": found, "layout": {"margin": MARGIN}}
    if view.kind != "figure":
        return {}
    first = view.choices(frames)[0]
    figures = {value: _figure(view, frames, {first.name: value}) for value in first.options}
    return {"figures": figures, "choice": first.name}


def _figure(view: View, frames: Frames, chosen: dict[str, str]) -> dict[str, Any]:
    """A figure as data, with the cells of its grids as rows, columns and values, for the keyboard and for CSV."""
    drawn = view.figure(frames, **chosen)
    figure = json.loads(str(drawn.to_json()))
    figure["layout"].pop("template", None)
    traces: Any = drawn.data
    for trace, plain in zip(traces, figure["data"], strict=True):
        if trace.type == "heatmap":
            rows = zip(trace.y, np.asarray(trace.z).tolist(), strict=True)
            plain["customdata"] = [[[y, x, finite(z)] for x, z in zip(trace.x, row, strict=True)] for y, row in rows]
    return figure


def _plain(axis: dict[str, Any]) -> dict[str, Any]:
    """An axis with lists of numbers that JSON can hold."""
    return {
        name: value if isinstance(value, str) else [finite(each) for each in np.asarray(value).tolist()]
        for name, value in axis.items()
    }
