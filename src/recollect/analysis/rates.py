"""The best learning rate: the one definition that tables, reports and papers compare models by.

A rate is judged by all of its runs. Unless a caller ranks rates otherwise, the best one has the highest mean accuracy on
validation rows at the end of training (on test rows where runs are older than validation rows). A run that diverged before it
could be measured counts as accuracy 0. Among equally good rates the smallest is the best.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from recollect.analysis.groups import groups
from recollect.analysis.intervals import bootstrap

Rank = Callable[[pd.DataFrame], float | tuple[float, ...]]
"""From the runs at one learning rate to a key to sort by: the least is the best."""
_AT_BEST = ("lr", "accuracy", "min", "max", "low", "high", "seeds", "rates", "parameters")


def with_accuracy(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs with a number as the accuracy of each: 0 where it diverged before it could be measured."""
    return runs.assign(accuracy=runs["accuracy"].astype(float).fillna(0.0))


def mean_accuracy(runs: pd.DataFrame) -> float:
    """The mean accuracy of runs."""
    return float(np.mean(with_accuracy(runs)["accuracy"].to_numpy()))


def at_rates(runs: pd.DataFrame, rates: Iterable[float]) -> pd.DataFrame:
    """The runs at one of these learning rates, to 1 %."""
    grid = np.asarray(list(rates), float)
    return runs.loc[[bool(np.isclose(grid, lr, rtol=0.01).any()) for lr in runs["train.lr"]]]


def best_rate(runs: pd.DataFrame, rank: Rank | None = None) -> float:
    """The learning rate whose runs have the highest mean accuracy, or the least `rank`; in a tie the smallest."""
    if rank is None:
        judged = runs["accuracy"].astype(float)
        if "final.valid" in runs:
            judged = runs["final.valid"].astype(float).fillna(judged)
        rates, place = np.unique(runs["train.lr"].to_numpy(float), return_inverse=True)  # ascending
        accuracy = judged.fillna(0.0).to_numpy()
        return float(rates[np.argmax([accuracy[place == i].mean() for i in range(len(rates))])])
    ranks: dict[Any, Any] = {lr: rank(part) for lr, part in runs.groupby("train.lr")}  # ascending
    return float(min(ranks, key=ranks.__getitem__))


def at_best(runs: pd.DataFrame, by: Sequence[str] = ("configuration",)) -> pd.Series:
    """Whether each run has the best learning rate of its group."""
    found = pd.Series(False, runs.index)
    for _, group in groups(runs, by):
        found[group.index] = group["train.lr"] == best_rate(group)
    return found


def at_best_rates(runs: pd.DataFrame, by: Sequence[str], rank: Rank | None = None) -> pd.DataFrame:
    """The runs of each group that have the group's best learning rate, group by group."""
    kept = [group.loc[group["train.lr"] == best_rate(group, rank)] for _, group in groups(runs, by)]
    return pd.concat(kept) if kept else runs


def at_best_rate(
    runs: pd.DataFrame, by: Sequence[str] = ("configuration",), rates: Iterable[float] | None = None
) -> pd.DataFrame:
    """One row per group: its best learning rate `lr`, and accuracy there over seeds (mean, min, max, bootstrap low and high).

    `rates`: the best among these only (to 1 %). `parameters` are included where the frame has them.
    """
    known = with_accuracy(runs)
    rows = []
    for values, group in groups(known if rates is None else at_rates(known, rates), by):
        lr = best_rate(group)
        found = group.loc[group["train.lr"] == lr, "accuracy"].to_numpy()
        low, high = bootstrap(len(found), lambda draw, found=found: float(found[draw].mean()))
        size = {"parameters": group["parameters"].iloc[0]} if "parameters" in group else {}
        rows.append(
            {**values, "lr": lr, "accuracy": found.mean(), "min": found.min(), "max": found.max(), "low": low, "high": high,
             "seeds": len(found), "rates": group["train.lr"].nunique(), **size}
        )  # fmt: skip
    return pd.DataFrame(rows, columns=None if rows else [*by, *_AT_BEST])
