"""The curves of a page: as much of them as it can hold, and what was left out."""

import numpy as np
import pandas as pd

from recollect.store.frames import curves_frame
from recollect.store.store import Store
from recollect.views.curves import mean_curves
from recollect.views.frame import Frame

NUMBERS = 200_000
"""How many numbers the curves of one page may have: about 1.5 MB."""
MOST, FEWEST = 200, 20
"""Steps of one curve: at most, and at least where curves are thinned to fit."""
SINGLE = 2000
"""Runs up to which each has a curve of its own; of more, the runs of a configuration at one learning rate are one curve."""


def curve_points(store: Store, runs: Frame) -> tuple[Frame, dict[str, str], str]:
    """The points of the curves of these runs, the id under which each run's curve is found, and what a reader has to know."""
    if runs.empty:
        return pd.DataFrame(), {}, ""
    many = len(runs) > SINGLE
    chosen = runs.loc[runs["at_best"]] if many else runs
    points: Frame = curves_frame(store, runs=list(dict.fromkeys(chosen["id"])))
    if points.empty:
        return points, {}, ""
    columns = len(points.columns) * (3 if many else 1)
    lines = len(chosen[["study", "configuration"]].drop_duplicates()) if many else points["run"].nunique()
    most = min(MOST, max(FEWEST, NUMBERS // (lines * columns)))
    longest = int(points.groupby("run").size().max())
    points = thinned(points, most)
    note = f"Thinned to at most {most} of up to {longest} measurements per run. " if longest > most else ""
    if not many:
        return points, {id: id for id in chosen["id"]}, note
    first = {}
    for _, group in chosen.drop_duplicates("id").groupby(["study", "configuration"], sort=False):
        first |= dict.fromkeys(group["id"], group["id"].iloc[0])
    note += f"Of {len(runs)} runs: only those at the best learning rates, taken together."
    return aggregated(points, first), first, note


def thinned(points: Frame, most: int) -> Frame:
    """The points at no more than so many steps, the same for all runs, and each run's last point."""
    steps = np.sort(points["step"].unique())
    if len(steps) <= most:
        return points
    kept = steps[np.unique(np.linspace(len(steps) - 1, 0, most).round().astype(int))]
    last = points.groupby("run")["step"].transform("max")
    return points.loc[points["step"].isin(kept) | (points["step"] == last)].reset_index(drop=True)


def aggregated(points: Frame, first: dict[str, str]) -> Frame:
    """One curve per configuration instead of one per run, under the id of its first run: of each measure its mean, `.low`,
    `.high`, and the `weight`, how many runs it is of."""
    named = points.assign(line=points["run"].map(first), x=points["step"])
    whole: Frame | None = None
    for y in [name for name in points if name not in ("run", "step")]:
        one = mean_curves(named, set(named["run"]), y)
        one = one.rename(columns={"mean": y, "low": f"{y}.low", "high": f"{y}.high", "count": "weight"})
        whole = one if whole is None else whole.merge(one.drop(columns="weight"), on=["line", "x"], how="left")
    assert whole is not None, "points have measures"
    spare = [name for name in ("examples.low", "examples.high") if name in whole]
    return whole.rename(columns={"line": "run", "x": "step"}).drop(columns=spare)
