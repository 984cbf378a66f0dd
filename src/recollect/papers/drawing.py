"""Drawings of items, each made from a function that gives the numbers to show."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pandas as pd

from recollect.analysis.scaling import at_best_rate
from recollect.figures.panels import lines_figure
from recollect.figures.tables import table_figure
from recollect.papers.item import Drawing
from recollect.papers.judge import Evidence

Numbers = Callable[[Evidence], pd.DataFrame]
Draw = Callable[[Evidence, str], Drawing]


def best_lines(runs: pd.DataFrame, by: Sequence[str], rates: Iterable[float] | None = None) -> pd.DataFrame:
    """Accuracy at the best rate of each group, its `low` and `high` being those of single seeds: what `lines_figure` takes."""
    band = {"accuracy": "mean", "min": "low", "max": "high"}
    if runs.empty or (table := at_best_rate(runs, by, rates)).empty:
        return pd.DataFrame(columns=[*by, "lr", *band.values(), "seeds", "parameters"])
    return table.drop(columns=["low", "high"]).rename(columns=band)


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
