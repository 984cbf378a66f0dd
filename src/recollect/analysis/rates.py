"""The best learning rate: the one definition that tables, reports and papers compare models by.

A rate is judged by all of its runs. By default that is their mean accuracy, to which a run that diverged before it could be
measured adds nothing, as it recalls nothing. Of equally good rates the smallest counts.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from recollect.analysis.groups import groups

Rank = Callable[[pd.DataFrame], float | tuple[float, ...]]
"""From the runs at one learning rate to a key to sort by: the least is the best."""


def with_accuracy(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs with a number as the accuracy of each: 0 where it diverged before it could be measured."""
    return runs.assign(accuracy=runs["accuracy"].astype(float).fillna(0.0))


def mean_accuracy(runs: pd.DataFrame) -> float:
    """The mean accuracy of runs, the same in whichever order they come."""
    return math.fsum(with_accuracy(runs)["accuracy"]) / len(runs)


def by_accuracy(runs: pd.DataFrame) -> float:
    """The rank of a rate by its mean accuracy."""
    return -mean_accuracy(runs)


def best_rate(runs: pd.DataFrame, rank: Rank = by_accuracy) -> float:
    """The learning rate whose runs rank first; of equal ones the smallest."""
    ranks: dict[Any, Any] = {lr: rank(part) for lr, part in runs.groupby("train.lr")}  # ascending
    return float(min(ranks, key=ranks.__getitem__))


def at_best_rates(runs: pd.DataFrame, by: Sequence[str], rank: Rank = by_accuracy) -> pd.DataFrame:
    """The runs of each group that have the group's best learning rate."""
    kept = [group.loc[group["train.lr"] == best_rate(group, rank)] for _, group in groups(runs, by)]
    return pd.concat(kept) if kept else runs
