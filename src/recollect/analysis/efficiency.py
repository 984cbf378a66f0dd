"""How many examples a model needs: the examples (or steps) seen when accuracy first reaches a threshold, and their ratios.

A run that ends before it reaches the threshold is *right-censored*: all that is known is that it needs more examples. The
median over runs is therefore Kaplan and Meier's (1958): with d_i runs reaching the threshold at time t_i of the n_i that were
still under way, S(t) = prod_{t_i <= t} (1 - d_i / n_i), and the median is the first t with S(t) <= 1/2; infinite where there is
none. A run that diverged never reaches it: its time is infinite.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from recollect.analysis.groups import groups
from recollect.analysis.intervals import resamples
from recollect.analysis.pooled import Interval, Pool, difference, mean_interval
from recollect.analysis.rates import at_best_rates
from recollect.analysis.window import THRESHOLD

Bound = Literal["exact", "at least", "at most", "unknown"]


@dataclass(frozen=True)
class Ratio:
    """How many times as many examples one model needs as another."""

    value: float
    """The ratio of medians, or its bound where a median is unknown; NaN where both are."""
    low: float
    """Lower end of its 90 % interval over seeds; 0 where it is open."""
    high: float
    """Upper end; infinite where it is open."""
    bound: Bound
    """`at least`: fewer than half of the first model's runs reached the threshold; `at most`: of the second's; `unknown`: of
    both."""


def times(
    curves: pd.DataFrame,
    runs: pd.DataFrame,
    threshold: float = THRESHOLD,
    unit: Literal["examples", "step"] = "examples",
) -> pd.DataFrame:
    """`runs` with `time`, the examples seen at the first measurement that reached the threshold, and `reached`.

    Where it was not reached, `time` is what the run had seen at its end: infinite where it diverged.
    """
    if runs.empty:
        return runs.assign(time=[], reached=[])
    ordered = curves.sort_values("step")
    first = ordered.loc[ordered["accuracy"] >= threshold].drop_duplicates("run")
    last = ordered.drop_duplicates("run", keep="last")
    hit, seen = dict(zip(first["run"], first[unit], strict=True)), dict(zip(last["run"], last[unit], strict=True))
    never = set(runs.loc[runs["status"] == "diverged", "id"])
    time = [float(hit.get(id, math.inf if id in never else seen[id])) for id in runs["id"]]
    return runs.assign(time=time, reached=[id in hit for id in runs["id"]])


def median_time(time: ArrayLike, reached: ArrayLike) -> float:
    """The median of right-censored times; infinite where fewer than half of the runs are known to reach the threshold."""
    t, hit = np.asarray(time, float), np.asarray(reached, bool)
    surviving = 1.0
    for now in np.unique(t[hit]):
        surviving *= 1 - (hit & (t == now)).sum() / (t >= now).sum()
        if surviving <= 0.5 + 1e-9:
            return float(now)
    return math.inf


def fastest_rate(learning_times: pd.DataFrame, by: Sequence[str] = ("configuration",)) -> pd.DataFrame:
    """The rows of `times` at the learning rate with the least median in each group; in a tie, the one at which most runs reach
    it."""
    return at_best_rates(
        learning_times, by, rank=lambda runs: (_median(runs), -float(np.mean(runs["reached"].to_numpy())))
    )


def data_efficiency(learning_times: pd.DataFrame, by: Sequence[str] = ("configuration",)) -> pd.DataFrame:
    """One row per group, at its fastest learning rate: `median` time with a 95 % bootstrap interval, `fastest` run, how many
    `reached` of `runs`, and `budget`, the most that any of them saw. Infinite: not within the budget."""
    rows = []
    for values, group in groups(fastest_rate(learning_times, by), by):
        low, high = _interval(group) if len(group) > 1 else (float("nan"), float("nan"))
        rows.append(
            {**values, "lr": group["train.lr"].iloc[0], "median": _median(group), "low": low,
             "high": high, "fastest": group["time"].where(group["reached"], math.inf).min(),
             "reached": int(group["reached"].to_numpy().sum()), "runs": len(group), "budget": _budget(group)}
        )  # fmt: skip
    return pd.DataFrame(rows)


def efficiency_ratio(first: pd.DataFrame, second: pd.DataFrame, pooled: Pool | None = None) -> Ratio:
    """How many times as many examples the `first` model needs as the `second`: rows of `times`, each of one model and rate.

    A median that is not known is at least the budget, which bounds the ratio. The interval is that of a difference of medians on
    a logarithmic axis: `pooled` is the pool of `log_times`, and a median varies pi/2 times as much as a mean.
    """
    ours, theirs = _median(first), _median(second)
    if math.isinf(ours) and math.isinf(theirs):
        return Ratio(float("nan"), 0.0, math.inf, "unknown")
    bound: Bound = "at least" if math.isinf(ours) else "at most" if math.isinf(theirs) else "exact"
    known = [_on_log_axis(part, median, pooled) for part, median in ((first, ours), (second, theirs))]
    value, low, high = (10**end for end in difference(*known))
    if min(len(first), len(second)) < 2:
        return Ratio(value, float("nan"), float("nan"), bound)
    return Ratio(value, 0.0 if bound == "at most" else low, math.inf if bound == "at least" else high, bound)


def log_times(learning_times: pd.DataFrame, by: Sequence[str]) -> list[list[float]]:
    """log10 of the times of the runs that reached the threshold, per group: the samples for a pool of their variances."""
    return [
        list(np.log10(rows["time"]))
        for _, rows in groups(learning_times.loc[learning_times["reached"].astype(bool)], by)
    ]


def _on_log_axis(group: pd.DataFrame, median: float, pooled: Pool | None) -> Interval:
    """log10 of a median with its interval; of the budget, without one, where the median is not known."""
    if math.isinf(median):
        least = math.log10(_budget(group))
        return least, least, least
    reached = [float(x) for x in np.log10(group.loc[group["reached"].astype(bool), "time"])]
    low, high = mean_interval(reached, pooled)
    centre, half = math.log10(median), math.sqrt(math.pi / 2) * (high - low) / 2
    return centre, centre - half, centre + half


def _median(group: pd.DataFrame) -> float:
    return median_time(group["time"], group["reached"])


def _budget(group: pd.DataFrame) -> float:
    """The most that a run saw that did not diverge."""
    finite = group["time"].loc[np.isfinite(group["time"])]
    return float(finite.max()) if len(finite) else math.inf


def _interval(group: pd.DataFrame) -> tuple[float, float]:
    """The middle 95 % of the medians of bootstrap draws of the runs, which may be infinite."""
    t, hit = group["time"].to_numpy(float), group["reached"].to_numpy(bool)
    medians = [median_time(t[draw], hit[draw]) for draw in resamples(len(group))]
    return float(np.quantile(medians, 0.025, method="lower")), float(np.quantile(medians, 0.975, method="higher"))
