"""The examples that models need, for claims and drawings of several papers."""

import pandas as pd

from recollect.analysis.efficiency import efficiency_ratio, log_times, times
from recollect.analysis.pooled import Pool, pool
from recollect.papers.estimates import Estimate, NotEnough
from recollect.papers.judge import where

ENDED = "Line: mean; band: lowest to highest seed. A run that has ended keeps its last value."
"""For the captions of curves."""


def examples_needed(curves: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """The runs with the examples they needed, and whether they reached the threshold."""
    if curves.empty or runs.empty:
        raise NotEnough("there are no curves")
    return times(curves, runs)


def examples_ratio(curves: pd.DataFrame, runs: pd.DataFrame, slow: str, fast: str) -> Estimate:
    """How many times as many examples one model needs as another, by the column `name`."""
    found = examples_needed(curves, runs)
    pooled = pool(log_times(found, ["name"]))
    return ratio_of(where(found, name=slow), where(found, name=fast), f"examples, {slow} / {fast}", pooled)


def ratio_of(slow: pd.DataFrame, fast: pd.DataFrame, name: str, pooled: Pool | None = None) -> Estimate:
    """The ratio of medians with its interval; a median that was not reached is known only as at least the budget."""
    found = efficiency_ratio(slow, fast, pooled)
    sign = {"exact": "", "unknown": " (neither reaches it)"}.get(found.bound, f" ({found.bound} this)")
    needs = "needs more seeds" if found.bound == "exact" else "needs longer training"
    return Estimate(name + sign, found.value, found.low, found.high, min(len(slow), len(fast)), needs)


def curve_table(
    curves: pd.DataFrame, runs: pd.DataFrame, titles: dict[str, str], value: str = "accuracy"
) -> pd.DataFrame:
    """A number against examples by model: mean, lowest and highest over seeds. A run that has ended keeps its last value."""
    columns = ["model", "examples", "mean", "low", "high"]
    if curves.empty or runs.empty:
        return pd.DataFrame(columns=columns)
    tables = []
    for name, rows in runs.groupby("name", sort=False):
        inside = curves.loc[curves["run"].isin(rows["id"])]
        wide = inside.pivot_table(index="examples", columns="run", values=value).ffill()
        parts = {"mean": wide.mean(axis=1), "low": wide.min(axis=1), "high": wide.max(axis=1)}
        tables.append(pd.DataFrame({"model": titles[str(name)], **parts}).reset_index())
    return pd.DataFrame(pd.concat(tables, ignore_index=True), columns=columns)
