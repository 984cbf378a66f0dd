"""Numbers that claims are about, each with its interval over seeds and with what else could change it.

Intervals are those of `analysis.pooled`: 90 %, with a variance that the item's configurations share.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import pandas as pd

from recollect.analysis.pooled import Interval, Pool, mean_interval, pool, share_interval
from recollect.analysis.rates import at_rates, best_rate, mean_accuracy, with_accuracy
from recollect.analysis.window import THRESHOLD, Window, window

Undecided = Literal[
    "runs are missing",
    "not seen at this scale",
    "needs longer training",
    "best rate at the edge of the grid",
    "needs more seeds",
]
UNDECIDED: tuple[Undecided, ...] = get_args(Undecided)
"""Why a question is undecided, in the order in which the reasons must be removed."""
AT_EDGE: Undecided = "best rate at the edge of the grid"
EDGE = 0.01
"""By how much accuracy at the last rate of a grid must exceed that at every other for the best rate to lie beyond it."""
LATE = 0.9
"""A run whose best measurement comes after this share of its steps was still improving when it ended."""


class NotEnough(Exception):
    """Evidence for a claim is missing; the message says which. `answer`: what it would need, or `not seen at this scale` if the
    setting cannot show it either way."""

    def __init__(self, message: str, answer: Undecided = "runs are missing") -> None:
        super().__init__(message)
        self.answer: Undecided = answer


def some(frame: pd.DataFrame, missing: str) -> pd.DataFrame:
    """The frame, or NotEnough with this message where it has no row."""
    if frame.empty:
        raise NotEnough(missing)
    return frame


@dataclass(frozen=True)
class Estimate:
    """A number and its interval over seeds."""

    name: str
    value: float
    low: float
    high: float
    seeds: int
    needs: Undecided = "needs more seeds"
    """What would make it sharper."""
    could_rise: bool = False
    """Whether it may be above the interval: training or the grid of rates ended too early."""

    detail: str = ""
    """Another number to compare it with."""

    @property
    def reach(self) -> Interval:
        """Value and interval, open above where the number could rise."""
        return self.value, self.low, math.inf if self.could_rise else self.high

    def __str__(self) -> str:
        seeds = f"{self.seeds} seed{'s' * (self.seeds != 1)}"
        rest = (seeds, self.detail, "" if self.needs == "needs more seeds" else self.needs)
        return f"{self.value:.3g} ({self.low:.3g} .. {self.high:.3g}; {'; '.join(filter(None, rest))})"


def best(
    runs: pd.DataFrame, name: str, rates: Iterable[float] | None = None, others: Sequence[Sequence[float]] = ()
) -> Estimate:
    """Mean accuracy over seeds at the learning rate with the highest: as the papers report.

    `rates`: the best among these only (to 1 %). `others`: the accuracies of other configurations over seeds, for the pool. Below
    THRESHOLD it could rise where every run there was still improving when its steps ended, or where the rate is the grid's first
    or last and better than all others by EDGE. The rate is chosen by the same runs, as in the papers: where several rates are
    equally good the mean is too high, and a yes at the bound is wrong more often (by simulation 10 % with two, 25 % with five).
    """
    known = with_accuracy(some(runs, f"no run of {name} has ended"))
    if rates is not None:
        known = some(at_rates(known, rates), f"no run of {name} has ended")
    lr = best_rate(known)
    there = known.loc[known["train.lr"] == lr]
    values = list(there["accuracy"])
    found = mean_of(values, name, pool(others if values in others else [*others, values], bounded=True))
    if found.value >= THRESHOLD or rates is not None:
        return found
    if _improving(there):
        return replace(found, needs="needs longer training", could_rise=True)
    return replace(found, needs=AT_EDGE, could_rise=True) if _at_the_edge(known, lr) else found


def window_of(runs: pd.DataFrame, name: str, pooled: Pool | None = None) -> Estimate:
    """Decades of learning rate at or above the threshold: the mean of the windows of single seeds.

    That mean is estimated without bias by any number of seeds. The window of the mean curve, which pictures show and which is
    given as a detail, shrinks as seeds are added, since one seed that fails takes the mean below the threshold. A window that
    continues beyond the rates tried may have any larger width. By simulation 88 to 92 % of the intervals cover.
    """
    found = seed_windows(some(runs, f"no run of {name} has ended"))
    widths, open_ = [one.decades for one in found], any(one.open_low or one.open_high for one in found)
    low, high = mean_interval(widths, pooled) if any(widths) else (0.0, 0.0)
    of_mean = _window(_by_seed(runs).mean(axis=1)).decades
    return Estimate(
        name, float(np.mean(widths)), max(0.0, low), high, len(widths), AT_EDGE if open_ else "needs more seeds", open_,
        f"mean curve {of_mean:.3g}",
    )  # fmt: skip


def seed_windows(runs: pd.DataFrame) -> list[Window]:
    """The window of each seed."""
    return [_window(curve.dropna()) for _, curve in _by_seed(runs).items()]


def _by_seed(runs: pd.DataFrame) -> pd.DataFrame:
    return with_accuracy(runs).pivot_table(index="train.lr", columns="train.seed", values="accuracy", aggfunc="mean")


def _window(curve: pd.Series) -> Window:
    return window(curve.index.to_numpy(float), curve.to_numpy(float))


def mean_of(values: Iterable[float], name: str, pooled: Pool | None = None) -> Estimate:
    """The mean of one number per seed; NaN is left out."""
    found = [float(v) for v in values if v == v]
    if not found:
        raise NotEnough(f"no value of {name}")
    if not np.isfinite(found).all():
        return Estimate(name, float(np.mean(found)), min(found), max(found), len(found))
    return Estimate(name, float(np.mean(found)), *mean_interval(found, pooled), len(found))


def share_of(flags: Iterable[bool], name: str) -> Estimate:
    """The share of seeds that show something."""
    found = [bool(flag) for flag in flags]
    if not found:
        raise NotEnough(f"no value of {name}")
    return Estimate(name, sum(found) / len(found), *share_interval(sum(found), len(found)), len(found))


def _improving(runs: pd.DataFrame) -> bool:
    """Whether every run took all of its steps and was at its best at the end."""
    if "best_step" not in runs or set(runs["status"]) != {"finished"}:
        return False
    return all(runs["best_step"].astype(float) >= LATE * runs["step"].astype(float))


def _at_the_edge(runs: pd.DataFrame, lr: float) -> bool:
    """Whether a rate is the first or last of three or more, and better than every other."""
    means = {float(rate): mean_accuracy(rows) for rate, rows in runs.groupby("train.lr")}  # pyright: ignore
    if len(means) < 3 or lr not in (min(means), max(means)):
        return False
    return means[lr] - max(mean for rate, mean in means.items() if rate != lr) >= EDGE
