"""Any number that came out of runs against any field of theirs."""

from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from pandas.api.types import is_numeric_dtype

from recollect.analysis.columns import column, is_share, logarithmic
from recollect.analysis.rates import at_best, with_accuracy
from recollect.figures.panels import lines_figure, mean_and_range
from recollect.figures.style import save
from recollect.spec import SpecError, nearest

ENDINGS = (".pdf", ".svg", ".png")


def plot_figure(
    runs: pd.DataFrame, x: str = "lr", y: str = "accuracy", lines: str = "configuration", title: str = ""
) -> Figure:
    """A line for each value of `lines`: the mean of `y` over runs at each `x`, and a band from the lowest to the highest. Unless
    x is the learning rate, only runs at the best rate of their configuration count. Names are columns: `width`, `final.loss`."""
    if runs.empty:
        raise SpecError("no runs to draw")
    x, y, lines = (column(runs, name) for name in (x, y, lines))
    for name in (x, y):
        if not is_numeric_dtype(runs[name]):
            raise SpecError(f"{name} is not a number and cannot be an axis; it can be what `lines` stand for")
    shown = runs if x == "train.lr" else runs.loc[at_best(runs)]
    table = mean_and_range(with_accuracy(shown), [lines, x], y)
    table = table.assign(**{lines: table[lines].map(str)})
    which = "" if x == "train.lr" else " at the best learning rate of their configuration"
    return lines_figure(
        table, x, lines, title=title, xlabel=plain(x), ylabel=plain(y), ylim=(-0.03, 1.05) if is_share(y) else None,
        logx=logarithmic(table[x]),
        caption=f"{len(shown):,} runs{which}. Line: mean over runs; band: lowest to highest.",
    )  # fmt: skip


def plain(name: str) -> str:
    """A column as people call it: `model.width` is `width`."""
    if name == "train.lr":
        return "learning rate"
    return name.removeprefix("final.").split(".", 1)[-1].replace("_", " ")


def save_as(figure: Figure, path: Path) -> None:
    """Write a figure as PDF, SVG or PNG, by the file's ending."""
    if path.suffix not in ENDINGS:
        raise SpecError(f"cannot draw {path.name!r}: {nearest(path.suffix, ENDINGS)}")
    save(figure, path.with_suffix(""), [path.suffix[1:]])
