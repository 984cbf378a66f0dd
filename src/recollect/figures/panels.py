"""Lines in panels: a number against an axis, one line per model, the band from the lowest to the highest seed."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, NullFormatter

from recollect.figures.looks import looks, written
from recollect.figures.style import add_caption, new_figure, style

FEW, FEW_RATES, MANY = 8, 3, 24
"""The most values of x that get a label each; the same of learning rates; the most points of a line that has markers."""
CLOSE = 0.035
"""The share of an axis that two labels must be apart for each of their characters."""
LONG = 28
"""The most characters in a line of the legend."""
LARGE = 10_000
"""Numbers on an axis from here on are abbreviated."""


def lines_figure(
    table: pd.DataFrame,
    x: str,
    line: str,
    panel: str | None = None,
    *,
    title: str,
    caption: str,
    xlabel: str,
    ylabel: str | Sequence[str] = "accuracy",
    logx: bool = True,
    logy: bool = False,
    columns: int = 3,
    sharey: Literal["all", "col"] = "all",
    ylim: tuple[float, float] | None = (-0.03, 1.05),
    marks: Sequence[float] = (),
    level: float | None = None,
) -> Figure:
    """`table` has the columns x, line, panel, and mean, low, high: what `summary` gives. `ylabel`: one, or one per column of
    panels; `marks`: dotted vertical lines; `level`: a grey horizontal one."""
    names = list(dict.fromkeys(table[panel])) if panel and len(table) else [""]
    lines = list(dict.fromkeys(table[line])) if len(table) else []
    columns = min(columns, len(names))
    rows = math.ceil(len(names) / columns)
    with style():
        height = max(1.4 + 2.5 * rows, 1.2 + 0.155 * sum(name.count("\n") + 1 for name in _names(lines)))
        figure = new_figure(2.2 + max(4.6, 2.6 * columns), height)
        grid = _grid(figure, len(names), rows, columns, xlabel, sharey=sharey)
        for axes, name in zip(grid.flat, names, strict=False):
            inside = table.loc[table[panel] == name] if panel and len(table) else table
            _draw(axes, inside, x, line, lines)
            for mark in marks:
                axes.axvline(mark, color="#555555", linestyle=(0, (2, 3)), linewidth=1, zorder=0)
            if level is not None:
                axes.axhline(level, color="#777777", linewidth=1)
            axes.set_title(written(str(name)), fontsize=9)
        for row in grid:
            for axes, label in zip(row, [ylabel] if isinstance(ylabel, str) else ylabel, strict=False):
                axes.set_ylabel(label)
        _scale(grid[0][0], sorted(set(table[x])) if len(table) else [], logx, ylim)
        if logy:
            grid[0][0].set_yscale("log")
        figure.suptitle(title, fontsize=11)
        if lines:
            _legend(grid[0][-1], lines, len(set(table[x])) <= MANY)
        else:
            grid[0][0].text(0.5, 0.5, "no runs yet", ha="center", transform=grid[0][0].transAxes)
        add_caption(figure, caption)
    return figure


def _grid(
    figure: Figure, panels: int, rows: int, columns: int, xlabel: str, fontsize: float = 10, sharey: Any = True
) -> np.ndarray:
    """The axes of so many panels, with the label of x where nothing is under them; those left over are hidden."""
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=sharey)
    for number, axes in enumerate(grid.flat):
        axes.set_visible(number < panels)
        if number + columns >= panels:
            axes.set_xlabel(xlabel, fontsize=fontsize)
            axes.tick_params(labelbottom=True)
    return grid


def _scale(axes: Axes, values: list[float], logx: bool, ylim: tuple[float, float] | None) -> None:
    """The axes that all panels share; few values of x get a label each."""
    if logx:
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
    rates = bool(values) and logx and min(values) < 1
    if values and len(values) <= (FEW_RATES if rates else FEW):
        labels = [_short(value) for value in values]
        shown = _apart([math.log(value) for value in values] if logx else values, max(map(len, labels)))
        axes.set_xticks(values, [label if show else "" for label, show in zip(labels, shown, strict=True)])
        axes.minorticks_off()
        if rates:
            axes.margins(x=0.12)  # so that the labels of two panels do not touch
    elif values and not logx and max(values) >= LARGE:
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))  # 150k
    if ylim:
        axes.set_ylim(*ylim)


def _short(value: float) -> str:
    """A number on an axis: large ones with three digits, such as 27.5k."""
    return f"{value:g}" if value < LARGE else EngFormatter(sep="").format_eng(float(f"{value:.3g}"))


def _apart(values: list[float], letters: int) -> list[bool]:
    """Which of ascending values can be named, in so many letters each, without touching the one before."""
    shown, last = [], -math.inf
    for value in values:
        shown.append(value - last >= CLOSE * letters * (values[-1] - values[0]))
        last = value if shown[-1] else last
    return shown


def _legend(axes: Axes, lines: list, marked: bool) -> None:
    """All lines, to the right of the panels, whichever of them a panel has, with marks where the lines have some."""
    handles = [Line2D([], [], **(look if marked else {**look, "marker": ""})) for look in looks(lines).values()]
    axes.legend(
        handles, _names(lines), loc="upper left", bbox_to_anchor=(1.02, 1.0), fontsize=8 if len(lines) <= 12 else 7
    )


def _names(lines: list) -> list[str]:
    return [textwrap.fill(written(str(name)), LONG) for name in lines]


def _draw(axes: Axes, table: pd.DataFrame, x: str, line: str, lines: list) -> None:
    for name, look in looks(lines).items():
        part = table.loc[table[line] == name].sort_values(by=x)
        if part.empty:
            continue
        if len(part) > MANY:
            look["marker"] = ""
        axes.fill_between(part[x], part["low"], part["high"], color=look["color"], alpha=0.15, linewidth=0)
        axes.plot(part[x], part["mean"], label=written(str(name)), **look)


def mean_and_range(frame: pd.DataFrame, by: Sequence[str], value: str = "accuracy") -> pd.DataFrame:
    """Mean, lowest and highest over the rows of each group, in the order of the frame."""
    if frame.empty:
        return pd.DataFrame(columns=[*by, "mean", "low", "high", "count"])
    filled = frame.assign(**{value: frame[value].fillna(0.0)})
    table = filled.groupby(list(by), sort=False)[value].agg(["mean", "min", "max", "count"]).reset_index()
    return table.rename(columns={"min": "low", "max": "high"})


def points_figure(
    table: pd.DataFrame, x: str, y: str, point: str, panel: str, *, xlabel: str, ylabel: str, caption: str, level: float
) -> Figure:
    """A panel per value of `panel`, a point per row with the look of what it is called, one legend; `level`: a grey line."""
    names, points = list(dict.fromkeys(table[panel])), list(dict.fromkeys(table[point]))
    columns = min(3, len(names))
    rows, all_looks = math.ceil(len(names) / columns), looks(points)
    with style():
        figure = new_figure(2.4 + 2.6 * columns, max(1.2 + 2.4 * rows, 1.0 + 0.165 * len(points)))
        grid = _grid(figure, len(names), rows, columns, xlabel, fontsize=8)
        for axes, name in zip(grid.flat, names, strict=False):
            for row in table.loc[table[panel] == name].to_dict("records"):
                axes.plot(row[x], row[y], **{**all_looks[row[point]], "linestyle": ""})
            axes.axhline(level, color="#999999", linewidth=0.8, zorder=0)
            axes.set_title(str(name), fontsize=9)
        for row in grid:
            row[0].set_ylabel(ylabel, fontsize=9)
        grid[0][0].set(xscale="log", ylim=(-0.03, 1.05))
        handles = [Line2D([], [], **{**all_looks[one], "linestyle": ""}) for one in points]
        figure.legend(handles, [written(str(one)) for one in points], loc="outside right upper", fontsize=8)
        add_caption(figure, caption)
    return figure
