"""Points in a plane, coloured by their order: embeddings of position tokens in their first two principal components."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from recollect.figures.style import add_caption, new_figure, style


def scatter_figure(
    cells: Mapping[tuple[str, str], np.ndarray],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str,
    caption: str,
    order: str,
) -> Figure:
    """A grid of panels, each with points (n, 2), joined by a thin line in their order."""
    with style():
        figure = new_figure(max(6.4, 0.9 + 2.0 * len(columns)), 1.4 + 1.9 * len(rows))
        grid = figure.subplots(len(rows), len(columns), squeeze=False)
        drawn = None
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                axes, points = grid[i][j], cells.get((row, column))
                axes.set_title(column if i == 0 else "", fontsize=9)
                axes.set_ylabel(row if j == 0 else "", fontsize=9)
                axes.tick_params(left=False, bottom=False, labelleft=False, labelbottom=False)
                axes.grid(False)
                if points is None:
                    axes.text(0.5, 0.5, "no runs yet", ha="center", va="center", transform=axes.transAxes)
                    continue
                axes.plot(*points.T, color="#bbbbbb", linewidth=0.6, zorder=1)
                drawn = axes.scatter(*points.T, c=np.arange(1, len(points) + 1), cmap="plasma_r", s=12, zorder=2)
        figure.suptitle(title, fontsize=11)
        if drawn is not None:
            figure.colorbar(drawn, ax=grid, label=order, shrink=0.8)
        add_caption(figure, caption)
    return figure
