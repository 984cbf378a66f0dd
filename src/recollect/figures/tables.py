"""A table as a picture, beside the figures."""

import math

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from recollect.figures.looks import written
from recollect.figures.style import add_caption, new_figure, style


def table_figure(frame: pd.DataFrame, title: str, caption: str) -> Figure:
    """A frame as a drawn table: the first column to the left, numbers with three digits."""
    headings = [str(name) for name in frame.columns]
    cells = [
        [written(str(value)) if name == "model" else _text(value) for name, value in zip(headings, row, strict=True)]
        for row in frame.itertuples(index=False)
    ]
    sizes = [max(map(len, column)) for column in zip(headings, *cells, strict=True)] or [20]
    with style():
        figure = new_figure(max(6.4, 0.085 * sum(sizes) + 0.35 * len(sizes)), 1.1 + 0.27 * (len(cells) + 1))
        axes = figure.add_subplot()
        axes.set_axis_off()
        axes.set_title(title, fontsize=11)
        if cells:
            drawn = axes.table(cells, colLabels=headings, loc="center", cellLoc="right", colWidths=[
                (size + 3) / (sum(sizes) + 3 * len(sizes)) for size in sizes], bbox=Bbox.unit())  # fmt: skip
            drawn.auto_set_font_size(False)
            drawn.set_fontsize(8.5)
            for (row, column), cell in drawn.get_celld().items():
                cell.set_linewidth(0.4)
                cell.visible_edges = "B" if row else "TB"
                if column == 0:
                    cell.set_text_props(ha="left")
                if row == 0:
                    cell.set_text_props(weight="bold")
        else:
            axes.text(0.5, 0.5, "no runs yet", ha="center")
        add_caption(figure, caption)
    return figure


def _text(value: object) -> str:
    """A cell: large numbers in full, and `never` for a time that does not come."""
    if not isinstance(value, float):
        return str(value)
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "never"
    return f"{float(f'{value:.3g}'):,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
