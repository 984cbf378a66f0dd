"""Results by configuration: one row each, to be put beside others in a paper's table."""

import math

import pandas as pd

from recollect.analysis.efficiency import median_time, times
from recollect.analysis.rates import at_best
from recollect.analysis.window import THRESHOLD, windows

_OF_WINDOW = {
    "configuration": "configuration", "best_lr": "best_lr", "best": "accuracy", "decades": "window",
    "interval_low": "window_low", "interval_high": "window_high", "low": "from_lr", "high": "to_lr",
    "open_low": "open_low", "open_high": "open_high", "rates": "rates", "seeds": "seeds", "diverged": "diverged",
}  # fmt: skip


def summary(runs: pd.DataFrame, curves: pd.DataFrame, threshold: float = THRESHOLD) -> pd.DataFrame:
    """One row per configuration: its best rate and the mean accuracy there, its window in decades with a 95 % interval over
    seeds, the steps to reach the threshold at the best rate (the median of its runs; infinite where fewer than half did, NaN
    where no curve is known), and its sizes. `curves` needs only those of the runs at the best rates."""
    if runs.empty:
        return pd.DataFrame()
    found = pd.DataFrame(windows(runs, threshold=threshold), columns=list(_OF_WINDOW)).rename(columns=_OF_WINDOW)
    sizes = runs.groupby("configuration", sort=False)[["state_size", "parameters"]].first()
    known = list(curves["run"].unique()) if len(curves) else []
    measured = runs.loc[at_best(runs) & runs["id"].isin(known)]
    learning_times = times(curves, measured, threshold, "step").groupby("configuration", sort=False)
    steps = (
        {name: median_time(group["time"], group["reached"]) for name, group in learning_times} if len(measured) else {}
    )
    names = found["configuration"]
    return found.assign(
        steps_to_learn=[steps.get(name, math.nan) for name in names],
        state_size=list(sizes["state_size"][names]), parameters=list(sizes["parameters"][names]),
        runs=list(runs["configuration"].value_counts()[names]),
    )  # fmt: skip
