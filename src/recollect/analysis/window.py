"""The learning-rate window: over how many decades of learning rate does a model reach the accuracy asked for?

Accuracy is interpolated linearly between the grid's rates on a logarithmic axis; the window is the widest stretch on which
it stays at or above the threshold. A window that touches an end of the grid is open there: its true width is at least that.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from recollect.analysis.intervals import bootstrap

THRESHOLD = 0.95
"""The accuracy that counts as solved."""
ZOOLOGY_RATES = tuple(float(x) for x in np.logspace(-4, -2, 4))
"""The four learning rates that Zoology tried."""


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
    """Mean accuracy over the decades tried: the area under accuracy against log rate, by their number."""
    best: float
    """The highest accuracy at any rate tried."""
    zoology_finds: bool
    """Whether one of Zoology's four rates lies in a stretch that reaches the threshold."""


def window(rates: ArrayLike, accuracy: ArrayLike, threshold: float = 0.95) -> Window:
    """The window of one curve; several accuracies at one rate must be averaged before."""
    order = np.argsort(rates)
    x, y = np.log10(np.asarray(rates, float)[order]), np.nan_to_num(np.asarray(accuracy, float)[order])
    if len(x) == 0 or len(np.unique(x)) != len(x):
        raise ValueError(f"a window needs distinct learning rates, one accuracy each; got rates {rates}")
    stretches = _stretches(x, y, threshold)
    low, high = max(stretches, key=lambda s: s[1] - s[0], default=(np.nan, np.nan))
    span = x[-1] - x[0]
    hits = any(a - 1e-9 <= np.log10(rate) <= b + 1e-9 for rate in ZOOLOGY_RATES for a, b in stretches)
    return Window(
        low=float(10**low), high=float(10**high), decades=float(high - low) if stretches else 0.0,
        open_low=bool(low == x[0]), open_high=bool(high == x[-1]),
        area=float(np.trapezoid(y, x) / span) if span > 0 else float(y[0]), best=float(y.max()), zoology_finds=hits,
    )  # fmt: skip


def _stretches(x: np.ndarray, y: np.ndarray, threshold: float) -> list[tuple[float, float]]:
    """The intervals of x on which the interpolated y is at least the threshold."""
    stretches: list[tuple[float, float]] = []
    above = y >= threshold
    i = 0
    while i < len(x):
        if not above[i]:
            i += 1
            continue
        j = i
        while j + 1 < len(x) and above[j + 1]:
            j += 1
        low = x[i] if i == 0 else _crossing(x[i - 1], y[i - 1], x[i], y[i], threshold)
        high = x[j] if j == len(x) - 1 else _crossing(x[j + 1], y[j + 1], x[j], y[j], threshold)
        stretches.append((low, high))
        i = j + 1
    return stretches


def _crossing(x0: float, y0: float, x1: float, y1: float, threshold: float) -> float:
    """Where the line from a point below the threshold to one at or above it crosses."""
    return float(x0 + (x1 - x0) * (threshold - y0) / (y1 - y0))


def windows(
    frame: pd.DataFrame,
    by: str = "configuration",
    threshold: float = 0.95,
    of_best: bool = False,
    resamples: int = 1000,
) -> pd.DataFrame:
    """One row a model: the window of its mean curve over seeds, and how it varies with the seeds.

    `of_best`: the threshold is that share of the model's own best mean accuracy, not an accuracy.
    Columns `seed_min`, `seed_max`: narrowest and widest window of a single seed, in decades; `interval_low`, `interval_high`:
    a 95 % bootstrap interval of the mean curve's window, over seeds (NaN with a single seed).
    """
    rows = []
    known = frame.assign(
        accuracy=frame["accuracy"].fillna(0.0)
    )  # what diverged before it could be measured recalls nothing
    for name, group in known.groupby(by, sort=False):
        table = group.pivot_table(index="train.lr", columns="train.seed", values="accuracy", aggfunc="mean")
        rates, values = table.index.to_numpy(float), table.to_numpy(float)  # NaN where a search did not try a seed
        mean = np.nanmean(values, axis=1)
        goal = threshold * mean.max() if of_best else threshold
        single = [_window_where_known(rates, column, goal).decades for column in values.T]
        interval = _bootstrap(rates, values, goal, resamples)
        rows.append(
            {by: name, **vars(window(rates, mean, goal)), "threshold": goal, "seeds": values.shape[1], "rates": len(rates),
             "seed_min": min(single), "seed_max": max(single), "interval_low": interval[0], "interval_high": interval[1]}
        )  # fmt: skip
    return pd.DataFrame(rows)


def _window_where_known(rates: np.ndarray, accuracy: np.ndarray, threshold: float) -> Window:
    known = ~np.isnan(accuracy)
    return window(rates[known], accuracy[known], threshold)


def _bootstrap(rates: np.ndarray, values: np.ndarray, threshold: float, resamples: int) -> tuple[float, float]:
    """A 95 % interval of the mean curve's width, seeds drawn with replacement."""

    def width(draw: np.ndarray) -> float:
        tried = ~np.isnan(values[:, draw]).all(axis=1)
        return window(rates[tried], np.nanmean(values[tried][:, draw], axis=1), threshold).decades

    return bootstrap(values.shape[1], width, resamples)
