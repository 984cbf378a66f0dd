"""How much a number varies with the seed: a 95 % bootstrap interval.

The bootstrap draws as many seeds as there are, with replacement, many times over, and takes the middle 95 % of the
results (Efron & Tibshirani 1993). Its draws are always the same, so that a number does not change when it is computed again.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

RESAMPLES = 1000
"""Draws of a bootstrap."""


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


def mean_curve(rates: np.ndarray, values: np.ndarray, draw: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Learning rates and the mean of `values` (rates, seeds) over the seeds drawn. A value is NaN where a seed was not trained at
    a rate; rates at which none of those drawn was are left out."""
    drawn = values[:, np.asarray(draw)]
    if not np.isnan(values).any():  # several times faster
        return rates, drawn.mean(axis=1)
    tried = ~np.isnan(drawn).all(axis=1)
    return rates[tried], np.nanmean(drawn[tried], axis=1)


def wilson(right: float, n: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927), which is also valid at 0 and 1; NaN where n is 0."""
    if n == 0:
        return float("nan"), float("nan")
    z = 1.959964
    share, spread = right / n, z * z / n
    middle = (share + spread / 2) / (1 + spread)
    half = math.sqrt(share * (1 - share) * spread + spread * spread / 4) / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)
