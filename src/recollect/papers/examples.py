"""Examples that models need, as claims and drawings of several papers have them."""

import pandas as pd

from recollect.analysis.efficiency import efficiency_ratio, times
from recollect.papers.judge import Estimate, NotEnough, where


def timed(curves: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """The runs with the examples they needed, and whether they got there."""
    if curves.empty or runs.empty:
        raise NotEnough("no curve is there")
    return times(curves, runs)


def examples_ratio(curves: pd.DataFrame, runs: pd.DataFrame, slow: str, fast: str) -> Estimate:
    """How many times as many examples one model needs as another, by the column `name`."""
    found = timed(curves, runs)
    return ratio_of(where(found, name=slow), where(found, name=fast), f"examples, {slow} / {fast}")


def ratio_of(slow: pd.DataFrame, fast: pd.DataFrame, name: str) -> Estimate:
    """The ratio of medians with its interval; one that did not get there is known only up to its budget."""
    found = efficiency_ratio(slow, fast)
    low = min(found.low, found.value) if found.bound == "at least" else found.low
    high = max(found.high, found.value) if found.bound == "at most" else found.high
    sign = {"exact": "", "unknown": " (neither gets there)"}.get(found.bound, f" ({found.bound} this)")
    return Estimate(name + sign, found.value, low, high, min(len(slow), len(fast)))


def curve_table(
    curves: pd.DataFrame, runs: pd.DataFrame, titles: dict[str, str], value: str = "accuracy", carried: bool = True
) -> pd.DataFrame:
    """A number against examples by model: mean, lowest and highest over seeds. `carried`: a run that has ended stays there."""
    columns = ["model", "examples", "mean", "low", "high"]
    if curves.empty or runs.empty:
        return pd.DataFrame(columns=columns)
    tables = []
    for name, rows in runs.groupby("name", sort=False):
        inside = curves.loc[curves["run"].isin(rows["id"])]
        wide = inside.pivot_table(index="examples", columns="run", values=value)
        wide = wide.ffill() if carried else wide
        parts = {"mean": wide.mean(axis=1), "low": wide.min(axis=1), "high": wide.max(axis=1)}
        tables.append(pd.DataFrame({"model": titles[str(name)], **parts}).reset_index())
    return pd.DataFrame(pd.concat(tables, ignore_index=True), columns=columns)
