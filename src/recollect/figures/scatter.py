"""Points in a plane: embeddings in their first two principal components, coloured by their order; models by two numbers."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from recollect.figures.looks import looks, written
from recollect.figures.style import add_caption, new_figure, style


def scatter_figure(
    cells: Mapping[tuple[str, str], np.ndarray],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str,
    caption: str,
    order: str,
    notes: Mapping[tuple[str, str], str],
) -> Figure:
    """A grid of panels, each with points (n, 2), joined by a thin line in their order, and a note in a corner."""
    with style():
        figure = new_figure(max(6.4, 0.9 + 2.0 * len(columns)), 1.4 + 1.9 * len(rows))
        grid = figure.subplots(len(rows), len(columns), squeeze=False)
        drawn = None
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                axes, points = grid[i][j], cells.get((row, column))
                axes.set_title(column if i == 0 else "", fontsize=9)
                axes.set_ylabel(f"{row}\nsecond component" if j == 0 else "", fontsize=8)
                axes.set_xlabel("first component" if i == len(rows) - 1 else "", fontsize=8)
                axes.tick_params(left=False, bottom=False, labelleft=False, labelbottom=False)
                axes.grid(False)
                if points is None:
                    axes.text(0.5, 0.5, "no runs yet", ha="center", va="center", transform=axes.transAxes)
                    continue
                axes.plot(*points.T, color="#bbbbbb", linewidth=0.6, zorder=1)
                drawn = axes.scatter(*points.T, c=np.arange(1, len(points) + 1), cmap="plasma_r", s=12, zorder=2)
                axes.margins(0.08, 0.16)
                axes.text(0.02, 0.98, notes.get((row, column), ""), va="top", fontsize=6.5, transform=axes.transAxes)
        figure.suptitle(title, fontsize=11)
        if drawn is not None:
            figure.colorbar(drawn, ax=grid, label=order, shrink=0.8)
        add_caption(figure, caption)
    return figure


def points_figure(
    table: pd.DataFrame, x: str, y: str, point: str, panel: str, *, xlabel: str, ylabel: str, caption: str, level: float
) -> Figure:
    """A panel per value of `panel`, a point per row with the look of what it is called, one legend; `level`: a grey line."""
    names, points = list(dict.fromkeys(table[panel])), list(dict.fromkeys(table[point]))
    columns = min(3, len(names))
    rows, all_looks = math.ceil(len(names) / columns), looks(points)
    with style():
        figure = new_figure(2.4 + 2.6 * columns, max(1.2 + 2.4 * rows, 1.0 + 0.165 * len(points)))
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        for axes, name in zip(grid.flat, names, strict=False):
            for row in table.loc[table[panel] == name].to_dict("records"):
                axes.plot(row[x], row[y], **{**all_looks[row[point]], "linestyle": ""})
            axes.axhline(level, color="#999999", linewidth=0.8, zorder=0)
            axes.set_title(str(name), fontsize=9)
        for number, axes in enumerate(grid.flat):
            axes.set_visible(number < len(names))
            if number + columns >= len(names):  # nothing under it
                axes.set_xlabel(xlabel, fontsize=8)
                axes.tick_params(labelbottom=True)
        for row in grid:
            row[0].set_ylabel(ylabel, fontsize=9)
        grid[0][0].set(xscale="log", ylim=(-0.03, 1.05))
        handles = [Line2D([], [], **{**all_looks[one], "linestyle": ""}) for one in points]
        figure.legend(handles, [written(str(one)) for one in points], loc="outside right upper", fontsize=8)
        add_caption(figure, caption)
    return figure
