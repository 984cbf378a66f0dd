"""The learning-rate window: over how many decades of learning rate does a model reach the threshold?

Accuracy is interpolated linearly between the grid's rates on a logarithmic axis; the window is the widest stretch on which
it stays at or above the threshold. A window that touches an end of the grid is open there: its true width is at least that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from recollect.analysis.intervals import bootstrap, mean_curve
from recollect.analysis.rates import best_rate, with_accuracy
from recollect.analysis.sensitivity import beside_window

THRESHOLD = 0.95
"""The accuracy from which a model counts as recalling, unless a study or a caller gives another."""
ZOOLOGY_RATES = tuple(float(x) for x in np.logspace(-4, -2, 4))
"""The four learning rates that Zoology tried."""


class Stretch(NamedTuple):
    """A stretch of a curve on which it stays at or above a threshold."""

    first: int
    """The index of its first point on the curve."""
    last: int
    """The index of its last point."""
    low: float
    """Where the interpolated curve comes up to the threshold: the first point's x where none lies before it."""
    high: float
    """Where it goes below the threshold again: the last point's x where none lies after it."""

    @property
    def width(self) -> float:
        """From edge to edge."""
        return self.high - self.low


@dataclass(frozen=True)
class Window:
    """A stretch of learning rates, or none (`decades` 0, edges NaN)."""

    low: float
    """Its lower edge."""
    high: float
    """Its upper edge."""
    decades: float
    """log10(high / low)."""
    open_low: bool
    """Whether it goes on below the smallest rate tried."""
    open_high: bool
    """Whether it goes on above the largest rate tried."""
    area: float
    """Mean accuracy over the decades tried: the area under accuracy against log rate, divided by the number of decades."""
    zoology_finds: bool
    """Whether one of Zoology's four rates lies in a stretch that reaches the threshold."""


def window(rates: ArrayLike, accuracy: ArrayLike, threshold: float = THRESHOLD) -> Window:
    """The window of one curve; several accuracies at one rate must be averaged before."""
    order = np.argsort(rates)
    x, y = np.log10(np.asarray(rates, float)[order]), np.nan_to_num(np.asarray(accuracy, float)[order])
    if len(x) == 0 or len(np.unique(x)) != len(x):
        raise ValueError(f"a window needs distinct learning rates, one accuracy each; got rates {rates}")
    found = stretches(x, y, threshold)
    widest = max(found, key=lambda stretch: stretch.width, default=None)
    span = x[-1] - x[0]
    hits = any(s.low - 1e-9 <= np.log10(rate) <= s.high + 1e-9 for rate in ZOOLOGY_RATES for s in found)
    return Window(
        low=float(10**widest.low) if widest else float("nan"), high=float(10**widest.high) if widest else float("nan"),
        decades=float(widest.width) if widest else 0.0,
        open_low=widest is not None and widest.first == 0, open_high=widest is not None and widest.last == len(x) - 1,
        area=float(np.trapezoid(y, x) / span) if span > 0 else float(y[0]), zoology_finds=hits,
    )  # fmt: skip


def stretches(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray, threshold: float) -> list[Stretch]:
    """Every stretch on which the curve through the points (x, y) is at least the threshold, from left to right.

    `x` ascends; a window takes log10 of learning rates. The widest stretch is the one with the largest `width`, the first
    one where several are as wide. One that starts at the first point or ends at the last is open there.
    """
    found: list[Stretch] = []
    last = len(x) - 1
    i = 0
    while i <= last:
        if y[i] < threshold:
            i += 1
            continue
        j = i
        while j < last and y[j + 1] >= threshold:
            j += 1
        low = x[i] if i == 0 else crossing(x[i - 1], y[i - 1], x[i], y[i], threshold)
        high = x[j] if j == last else crossing(x[j + 1], y[j + 1], x[j], y[j], threshold)
        found.append(Stretch(i, j, low, high))
        i = j + 1
    return found


def crossing(x0: float, y0: float, x1: float, y1: float, threshold: float) -> float:
    """The x at which the line from a point (x0, y0) below the threshold to one (x1, y1) at or above it reaches it."""
    return float(x0 + (x1 - x0) * (threshold - y0) / (y1 - y0))


def windows(
    frame: pd.DataFrame,
    by: str = "configuration",
    threshold: float = THRESHOLD,
    resamples: int = 1000,
) -> pd.DataFrame:
    """One row per model: the window of its mean curve over seeds, and how it varies with the seeds.

    Columns: those of `Window`; `best_lr`, the best learning rate (analysis/rates.py), and `best`, the mean accuracy there;
    `seed_min`, `seed_max`, narrowest and widest window of a single seed, in decades; `interval_low`, `interval_high`, a 95 %
    bootstrap interval of the mean curve's window, over seeds (NaN with a single seed); `checkpoint_decades`, `checkpoint_low`,
    `checkpoint_high`, the window of each run's best checkpoint instead of its end; and those of analysis/sensitivity.py.
    """
    rows = []
    for name, group in with_accuracy(frame).groupby(by, sort=False):
        table = group.pivot_table(index="train.lr", columns="train.seed", values="accuracy", aggfunc="mean")
        rates, values = table.index.to_numpy(float), table.to_numpy(float)  # NaN where a search did not try a seed
        mean, seeds = np.nanmean(values, axis=1), values.shape[1]

        def decades(draw: Sequence[int] | np.ndarray, rates: np.ndarray = rates, values: np.ndarray = values) -> float:
            return window(*mean_curve(rates, values, draw), threshold).decades

        single = [decades([seed]) for seed in range(seeds)]
        interval, best_lr = bootstrap(seeds, decades, resamples), best_rate(group)
        checkpoint = _checkpoint_window(group, threshold)
        rows.append(
            {by: name, "best": float(mean[rates == best_lr][0]), "best_lr": best_lr,
             **vars(window(rates, mean, threshold)), **beside_window(group, resamples), "threshold": threshold,
             "seeds": seeds, "rates": len(rates), "seed_min": min(single), "seed_max": max(single),
             "interval_low": interval[0], "interval_high": interval[1],
             "checkpoint_decades": checkpoint.decades, "checkpoint_low": checkpoint.low, "checkpoint_high": checkpoint.high}
        )  # fmt: skip
    return pd.DataFrame(rows)


def decades_text(row: Mapping[str, Any]) -> str:
    """The width of a window, with a sign where it goes on beyond the grid."""
    return ("≥ " if True in (row["open_low"], row["open_high"]) else "") + f"{row['decades']:.2f}"


def _checkpoint_window(runs: pd.DataFrame, threshold: float) -> Window:
    """The window of the best accuracy that each run had at any measurement, or of the last one where no other is known."""
    best = runs["accuracy"]
    if "best_accuracy" in runs:
        best = runs["best_accuracy"].astype(float).fillna(best)
    table = runs.assign(best=best).pivot_table(index="train.lr", values="best", aggfunc="mean")
    return window(table.index.to_numpy(float), table["best"].to_numpy(float), threshold)
