"""Matrices as grids of coloured panels: accuracy by progress and position, preference by segment, cosine similarity."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from recollect.figures.style import add_caption, new_figure, style

Cells = Mapping[tuple[str, str], pd.DataFrame]
"""By row and column of the grid: a matrix, its index up and its columns along."""
FEW = 5
"""Rows or columns that are named one by one at most."""


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
    with style():
        figure = new_figure(max(6.4, 0.9 + 2.3 * len(columns)), 1.4 + 2.2 * len(rows))
        grid = figure.subplots(len(rows), len(columns), squeeze=False)
        image = None
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                axes, matrix = grid[i][j], cells.get((row, column))
                axes.grid(False)
                axes.set_title("\n".join(filter(None, (column if i == 0 else "", row))), fontsize=9)
                if matrix is None or not matrix.size:
                    axes.text(0.5, 0.5, "no runs yet", ha="center", va="center", transform=axes.transAxes)
                    axes.tick_params(left=False, bottom=False, labelleft=False, labelbottom=False)
                    continue
                numbers = matrix.to_numpy(float)
                image = axes.imshow(
                    numbers,
                    aspect="auto",
                    origin="upper" if write else "lower",
                    cmap="viridis",
                    vmin=limits[0],
                    vmax=limits[1],
                )
                _ticks(axes.set_xticks, matrix.columns)
                _ticks(axes.set_yticks, matrix.index)
                axes.tick_params(labelleft=j == 0, labelbottom=i == len(rows) - 1)
                if write:
                    small = 5.5 if numbers.shape[1] > FEW else 7
                    for (y, x), number in np.ndenumerate(numbers):
                        if number == number:
                            colour = "white" if number < sum(limits) / 2 else "black"
                            short = f"{number:.2f}".removeprefix("0")
                            axes.text(x, y, short, ha="center", va="center", fontsize=small, color=colour)
        figure.suptitle(title, fontsize=11)
        for axes in grid[-1]:
            axes.set_xlabel(xlabel, fontsize=9)
        for axes in grid[:, 0]:
            axes.set_ylabel(ylabel, fontsize=9)
        if image is not None:
            figure.colorbar(image, ax=grid, label=value, shrink=0.8)
        add_caption(figure, caption)
    return figure


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
    tables = []
    for (row, column), matrix in cells.items():
        long = pd.DataFrame(
            [(row, column, y, x, matrix.loc[y, x]) for y in matrix.index for x in matrix.columns],
            columns=["row", "model", *names, value],
        )
        tables.append(long.dropna(subset=value))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=["row", "model", *names, value])
