"""Accuracy against size: at the best learning rate, by width, depth, parameters or state (as the papers report it)."""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from recollect.analysis.groups import groups
from recollect.analysis.intervals import over_seeds
from recollect.analysis.rates import best_rate, with_accuracy
from recollect.analysis.window import THRESHOLD


def at_best_rate(
    runs: pd.DataFrame, by: Sequence[str] = ("configuration",), rates: Iterable[float] | None = None
) -> pd.DataFrame:
    """One row per group: its best learning rate `lr`, and accuracy there over seeds (mean, min, max, bootstrap low and high).

    `rates`: the best among these only (to 1 %). `parameters` are included where the frame has them.
    """
    known = with_accuracy(runs)
    if rates is not None:
        grid = np.asarray(list(rates), float)
        known = known.loc[[bool(np.isclose(grid, lr, rtol=0.01).any()) for lr in known["train.lr"]]]
    rows = []
    for values, group in groups(known, by):
        lr = best_rate(group)
        found = over_seeds(group.loc[group["train.lr"] == lr, "accuracy"])
        size = {"parameters": group["parameters"].iloc[0]} if "parameters" in group else {}
        rows.append(
            {**values, "lr": lr, "accuracy": found.mean, "min": found.min, "max": found.max,
             "low": found.low, "high": found.high, "seeds": found.seeds, "rates": group["train.lr"].nunique(), **size}
        )  # fmt: skip
    return pd.DataFrame(rows)


def first_width(table: pd.DataFrame, by: Sequence[str] = ("model",), threshold: float = THRESHOLD) -> pd.DataFrame:
    """One row per model: the smallest `width` whose mean accuracy reaches the threshold (NaN: none of those tried does).

    `table` as `at_best_rate` gives it by these columns and `model.width`. `accuracy` is the one at that width, or where
    there is none the highest of all; `widest` is the largest width tried.
    """
    rows = []
    for values, group in groups(table, by):
        solved = group.loc[group["accuracy"] >= threshold]
        first = (solved.sort_values("model.width") if len(solved) else group.sort_values("accuracy")[::-1]).iloc[0]
        width = float(first["model.width"]) if len(solved) else float("nan")
        rows.append(
            {**values, "width": width, "accuracy": first["accuracy"],
             "widest": group["model.width"].max()}
        )  # fmt: skip
    return pd.DataFrame(rows)
