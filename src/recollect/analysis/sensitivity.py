"""How much a badly chosen learning rate costs, beside the window: sensitivity, share of diverged runs, best rate.

Sensitivity (Wortsman et al. 2023) is the average loss from drawing the rate at random, evenly on a logarithmic axis, from
a fixed range: E[min(loss at the rate, loss before training)] - the least loss at any rate of the range. A curve that does not
depend on the rate has 0. By accuracy it is the highest accuracy in the range, less the mean over the range. Rates in between are
interpolated; it is NaN where a sweep does not cover the range.
"""

import math
from collections.abc import Callable

import numpy as np
import pandas as pd

from recollect.analysis.intervals import bootstrap, mean_curve, wilson

Statistic = Callable[[np.ndarray, np.ndarray], float]
"""Of ascending rates, and one number at each."""
RANGE = (3e-4, 1e-1)
"""The default range of learning rates for sensitivity."""


def sensitivity(rates: np.ndarray, losses: np.ndarray, low: float = RANGE[0], high: float = RANGE[1]) -> float:
    """What a rate drawn from `low` to `high` costs over the best one, given losses, at most that before training, at ascending
    rates; NaN where these do not cover the range."""
    ends, x = np.log10([low, high]), np.log10(rates)
    if len(x) < 2 or x[0] > ends[0] + 1e-9 or x[-1] < ends[1] - 1e-9:
        return float("nan")
    inner = (x > ends[0]) & (x < ends[1])
    points = np.concatenate([ends[:1], x[inner], ends[1:]])
    values = np.interp(points, x, losses)
    return float(np.trapezoid(values, points) / (ends[1] - ends[0]) - values.min())


def beside_window(runs: pd.DataFrame, resamples: int) -> dict[str, float]:
    """Of one model's runs, each with a 95 % interval (`_low`, `_high`; NaN with a single seed): `sensitivity` by accuracy,
    `loss_sensitivity` by test loss, `diverged` (a share of the runs), and the interval of the best rate, `best_lr`."""
    accuracy, initial = _numbers(runs, "accuracy", 0.0), _initial_loss(runs)
    losses = accuracy * np.nan if math.isnan(initial) else np.minimum(_numbers(runs, "final.loss", initial), initial)
    valid = _numbers(runs, "final.valid", accuracy) if "final.valid" in runs else accuracy
    ends = list(runs["status"]) if "status" in runs else []
    low, high = wilson(ends.count("diverged"), len(ends))
    return {
        **_with_interval("sensitivity", runs, 1 - accuracy, sensitivity, resamples),
        **_with_interval("loss_sensitivity", runs, losses, sensitivity, resamples),
        "diverged": ends.count("diverged") / len(ends) if ends else float("nan"),
        "diverged_low": low,
        "diverged_high": high,
        **_with_interval("best_lr", runs, -valid, lambda rates, y: float(rates[y.argmin()]), resamples),
    }


def _numbers(runs: pd.DataFrame, column: str, otherwise: float | np.ndarray) -> np.ndarray:
    """A column as numbers, with `otherwise` for those that are missing."""
    found = runs[column].to_numpy(float)
    return np.where(np.isnan(found), otherwise, found)


def _with_interval(
    name: str, runs: pd.DataFrame, numbers: np.ndarray, statistic: Statistic, resamples: int
) -> dict[str, float]:
    """A statistic of the rates and of the mean over seeds at each, and its bootstrap interval. `numbers` has one per run; not
    every seed need have been trained at every rate."""
    rates, row = np.unique(runs["train.lr"].to_numpy(float), return_inverse=True)
    seeds, place = np.unique(runs["train.seed"].to_numpy(), return_inverse=True)
    total, count = np.zeros((2, len(rates), len(seeds)))
    np.add.at(total, (row, place), numbers)
    np.add.at(count, (row, place), 1)
    values = np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
    if np.isnan(values).all():
        return dict.fromkeys((name, f"{name}_low", f"{name}_high"), float("nan"))

    def of(draw: np.ndarray) -> float:
        return statistic(*mean_curve(rates, values, draw))

    low, high = bootstrap(len(seeds), of, resamples)
    return {name: of(np.arange(len(seeds))), f"{name}_low": low, f"{name}_high": high}


def _initial_loss(runs: pd.DataFrame) -> float:
    """The loss of a model that prefers no word, as all do before training; NaN where that, or any loss, is not known."""
    words = set(runs["task.vocab"]) if {"task.vocab", "final.loss"} <= set(runs.columns) else set()
    return math.log(words.pop()) if len(words) == 1 else float("nan")
