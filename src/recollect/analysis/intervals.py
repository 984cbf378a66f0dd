"""How much a number varies with the seed: lowest, highest, and a 95 % bootstrap interval.

The bootstrap draws as many seeds as there are, with replacement, many times over, and takes the middle 95 % of the
results (Efron & Tibshirani 1993). Its draws are always the same, so that a number does not change when it is computed again.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

RESAMPLES = 1000
"""Draws of a bootstrap."""


@dataclass(frozen=True)
class Spread:
    """A mean over seeds and how much they differ."""

    mean: float
    min: float
    max: float
    low: float
    """Lower end of the 95 % interval of the mean; NaN with a single seed."""
    high: float
    """Its upper end."""
    seeds: int
    """How many values there were."""


def over_seeds(values: ArrayLike) -> Spread:
    """The spread of one number per seed; NaN is left out."""
    known = np.asarray(values, float)
    known = known[~np.isnan(known)]
    if len(known) == 0:
        return Spread(*[float("nan")] * 5, seeds=0)
    low, high = bootstrap(len(known), lambda draw: float(known[draw].mean()))
    return Spread(float(known.mean()), float(known.min()), float(known.max()), low, high, len(known))


def resamples(n: int, count: int = RESAMPLES) -> np.ndarray:
    """Draws of n out of n with replacement, the same at every call: (count, n)."""
    return np.random.default_rng(0).integers(0, n, (count, n))


def bootstrap(n: int, statistic: Callable[[np.ndarray], float], count: int = RESAMPLES) -> tuple[float, float]:
    """A 95 % interval of a statistic of n seeds, given the numbers of the seeds drawn; NaN with fewer than two."""
    if n < 2:
        return float("nan"), float("nan")
    distinct, counts = np.unique(np.sort(resamples(n, count)), axis=0, return_counts=True)  # few seeds, few draws
    low, high = np.quantile(np.repeat([statistic(draw) for draw in distinct], counts), [0.025, 0.975])
    return float(low), float(high)


def wilson(right: float, n: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927), which is also valid at 0 and 1; NaN where n is 0."""
    if n == 0:
        return float("nan"), float("nan")
    z = 1.959964
    share, spread = right / n, z * z / n
    middle = (share + spread / 2) / (1 + spread)
    half = math.sqrt(share * (1 - share) * spread + spread * spread / 4) / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)
