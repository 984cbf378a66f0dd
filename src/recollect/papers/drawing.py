"""Drawings of items, each made from a function that gives the numbers to show."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from recollect.figures.panels import lines_figure
from recollect.figures.tables import table_figure
from recollect.papers.item import Drawing
from recollect.papers.judge import Evidence

Numbers = Callable[[Evidence], pd.DataFrame]
Draw = Callable[[Evidence, str], Drawing]


def lines(numbers: Numbers, x: str, line: str, panel: str | None = None, *, note: str = "", **options: Any) -> Draw:
    """Draws the numbers as lines in panels; `note` is added to the caption, `options` are those of `lines_figure`."""

    def draw(evidence: Evidence, caption: str) -> Drawing:
        table = numbers(evidence)
        return lines_figure(table, x, line, panel, caption=f"{caption} {note}".strip(), **options), table

    return draw


def table(numbers: Numbers, title: str, note: str = "") -> Draw:
    """Draws the numbers as a table; `note` is added to the caption."""

    def draw(evidence: Evidence, caption: str) -> Drawing:
        frame = numbers(evidence)
        return table_figure(frame, title, f"{caption} {note}".strip()), frame

    return draw
