"""Grids of panels by row and column: matrices as colours, and points in a plane in their order."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from recollect.figures.style import add_caption, new_figure, style

At = tuple[str, str]
"""The row and the column of a panel."""
Cells = Mapping[At, pd.DataFrame]
"""By row and column of the grid: a matrix, its index up and its columns along."""
FEW = 5
"""Rows or columns that are named one by one at most."""


def _panels(
    figure: Figure, cells: Mapping[At, Any], rows: Sequence[str], columns: Sequence[str]
) -> Iterator[tuple[Axes, At, Any]]:
    """The panels of a grid with their cells; None where there is none, which the panel says."""
    grid = figure.subplots(len(rows), len(columns), squeeze=False)
    for axes, at in zip(grid.flat, product(rows, columns), strict=True):
        axes.grid(False)
        cell = cells.get(at)
        if cell is None or not cell.size:
            axes.text(0.5, 0.5, "no runs yet", ha="center", va="center", transform=axes.transAxes)
            axes.tick_params(left=False, bottom=False, labelleft=False, labelbottom=False)
            cell = None
        yield axes, at, cell


def _finish(figure: Figure, drawn: Any, label: str, title: str, caption: str) -> None:
    """Title, caption, and the colour scale of what was drawn last."""
    figure.suptitle(title, fontsize=11)
    if drawn is not None:
        figure.colorbar(drawn, ax=list(figure.axes), label=label, shrink=0.8)
    add_caption(figure, caption)


def heatmaps_figure(
    cells: Cells,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str,
    caption: str,
    xlabel: str,
    ylabel: str,
    value: str,
    limits: tuple[float, float] = (0.0, 1.0),
    write: bool = False,
) -> Figure:
    """A grid of matrices with one colour scale. NaN stays blank; `write`: print the numbers in the cells, first row on top."""
    low, high = limits
    with style():
        figure, image = new_figure(max(6.4, 0.9 + 2.3 * len(columns)), 1.4 + 2.2 * len(rows)), None
        for axes, (row, column), matrix in _panels(figure, cells, rows, columns):
            left, bottom = column == columns[0], row == rows[-1]
            axes.set_title("\n".join(filter(None, (column if row == rows[0] else "", row))), fontsize=9)
            axes.set_xlabel(xlabel if bottom else "", fontsize=9)
            axes.set_ylabel(ylabel if left else "", fontsize=9)
            if matrix is not None:
                numbers, origin = matrix.to_numpy(float), "upper" if write else "lower"
                image = axes.imshow(numbers, aspect="auto", origin=origin, cmap="viridis", vmin=low, vmax=high)
                _ticks(axes.set_xticks, matrix.columns)
                _ticks(axes.set_yticks, matrix.index)
                axes.tick_params(labelleft=left, labelbottom=bottom)
                if write:
                    _write(axes, numbers, (low + high) / 2)
        _finish(figure, image, value, title, caption)
    return figure


def _write(axes: Axes, numbers: np.ndarray, middle: float) -> None:
    """Print the numbers of a matrix in its cells, in a colour that can be read."""
    small = 5.5 if numbers.shape[1] > FEW else 7
    for (y, x), number in np.ndenumerate(numbers):
        if number == number:
            colour, short = "white" if number < middle else "black", f"{number:.2f}".removeprefix("0")
            axes.text(x, y, short, ha="center", va="center", fontsize=small, color=colour)


def _ticks(put, labels: pd.Index) -> None:
    """All labels where they are few, else those at round numbers."""
    values = np.asarray(labels, float)
    places = np.arange(len(values))
    if len(values) > FEW:
        whole = bool((values == values.round()).all())
        wanted = MaxNLocator(FEW - 1, integer=whole, steps=[1, 2, 2.5, 5, 10]).tick_values(values[0], values[-1])
        places = np.unique([np.abs(values - one).argmin() for one in wanted if values[0] <= one <= values[-1]])
    put(places, [f"{values[p]:g}" for p in places], fontsize=7)


def long_table(cells: Cells, names: tuple[str, str], value: str) -> pd.DataFrame:
    """The numbers of a grid of matrices, one per row: row and column of the grid, index and column of the matrix, value."""
    columns = ["row", "model", *names, value]
    rows = [(*at, y, x, matrix.loc[y, x]) for at, matrix in cells.items() for y in matrix.index for x in matrix.columns]
    return pd.DataFrame(rows, columns=columns).dropna(subset=value).reset_index(drop=True)


def scatter_figure(
    cells: Mapping[At, np.ndarray],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str,
    caption: str,
    order: str,
    notes: Mapping[At, str],
) -> Figure:
    """A grid of panels, each with points (n, 2), joined by a thin line in their order, and a note in a corner."""
    with style():
        figure, drawn = new_figure(max(6.4, 0.9 + 2.0 * len(columns)), 1.4 + 1.9 * len(rows)), None
        for axes, (row, column), points in _panels(figure, cells, rows, columns):
            axes.set_title(column if row == rows[0] else "", fontsize=9)
            axes.set_ylabel(f"{row}\nsecond component" if column == columns[0] else "", fontsize=8)
            axes.set_xlabel("first component" if row == rows[-1] else "", fontsize=8)
            axes.tick_params(left=False, bottom=False, labelleft=False, labelbottom=False)
            if points is not None:
                axes.plot(*points.T, color="#bbbbbb", linewidth=0.6, zorder=1)
                drawn = axes.scatter(*points.T, c=np.arange(1, len(points) + 1), cmap="plasma_r", s=12, zorder=2)
                axes.margins(0.08, 0.16)
                axes.text(0.02, 0.98, notes.get((row, column), ""), va="top", fontsize=6.5, transform=axes.transAxes)
        _finish(figure, drawn, order, title, caption)
    return figure
