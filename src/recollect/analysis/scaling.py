"""Accuracy against size: at the best learning rate, by width, depth, parameters or state (as the papers report it).

A learning rate is judged by its mean accuracy over seeds; of equally good ones the smallest counts. A run that diverged
before it could be measured recalls nothing.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from recollect.analysis.groups import groups
from recollect.analysis.intervals import spread

SIZES = {"parameters": "per_parameter", "state": "per_state"}
"""Columns that say how large a model is, and what accuracy divided by them is called."""


def at_best_rate(
    runs: pd.DataFrame, by: Sequence[str] = ("configuration",), rates: Iterable[float] | None = None
) -> pd.DataFrame:
    """One row a group: its best learning rate `lr`, and accuracy there over seeds (mean, min, max, bootstrap low and high).

    `rates`: the best among these only (to 1 %). Sizes (`parameters`, and `state` where the frame has it) come along.
    """
    known = runs.assign(accuracy=runs["accuracy"].astype(float).fillna(0.0))
    if rates is not None:
        grid = np.asarray(list(rates), float)
        known = known.loc[[bool(np.isclose(grid, lr, rtol=0.01).any()) for lr in known["train.lr"]]]
    rows = []
    for values, group in groups(known, by):
        means = group.pivot_table(index="train.lr", values="accuracy", aggfunc="mean")["accuracy"]
        lr = means.index.to_numpy(float)[means.to_numpy().argmax()]
        found = spread(group.loc[group["train.lr"] == lr, "accuracy"])
        sizes = {size: group[size].iloc[0] for size in SIZES if size in group}
        rows.append(
            {**values, "lr": lr, "accuracy": found.mean, "min": found.min, "max": found.max,
             "low": found.low, "high": found.high, "seeds": found.seeds, "rates": len(means), **sizes}
        )  # fmt: skip
    return pd.DataFrame(rows)


def first_width(table: pd.DataFrame, by: Sequence[str] = ("model",), threshold: float = 0.95) -> pd.DataFrame:
    """One row a model: the smallest `width` whose mean accuracy reaches the threshold (NaN: none of those tried does).

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


def with_efficiency(table: pd.DataFrame) -> pd.DataFrame:
    """A table with accuracy `per_parameter` and, where it has a column `state`, `per_state` element."""
    return table.assign(**{name: table["accuracy"] / table[size] for size, name in SIZES.items() if size in table})
