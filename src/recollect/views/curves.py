"""Training curves: mean and band over runs, or one line per run."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from recollect.views.base import Choice, Frames, View
from recollect.views.draw import LINES, best_lines, line_figure, linear
from recollect.views.fields import choose, groupings, lines_of, scales, top
from recollect.views.frame import Frame

RATES = 24
"""Learning rates that can be chosen one by one, at most."""


class Curves(View):
    """Training curves."""

    title = "Training curves"
    needs = ("runs", "curves")
    kind = "lines"
    source = "curves"
    about = (
        "Measured on validation rows during training. Line: mean; band: lowest to highest run. A run that ended early keeps "
        "its last value up to the last step of its line."
    )

    def choices(self, frames: Frames) -> list[Choice]:
        if frames.curves.empty or frames.runs.empty:
            return []
        shown = [name for name in frames.curves if name not in ("run", "step", "examples")]
        rates = sorted(set(frames.runs["train.lr"]))
        each = {f"{rate:.12g}": f"{rate:.3g}" for rate in rates} if 1 < len(rates) <= RATES else {}
        best = {"best": "best of each"}
        return [
            choose("x", "x", [name for name in ("step", "examples") if name in frames.curves]),
            choose("y", "y", shown, "accuracy" if "accuracy" in shown else ""), choose("lines", "lines", groupings(frames.runs)),
            Choice("show", "draw", {"band": "mean and band", "runs": "single runs"}, "band"),
            Choice("rate", "learning rate", {**best, "all": "all", **each}, "best"), top(), *scales(),
        ]  # fmt: skip

    def table(self, frames: Frames, chosen: dict[str, str]) -> Frame:
        runs, y = at_rate(frames.runs, chosen["rate"]), chosen["y"]
        line = dict(zip(runs["id"], lines_of(runs, chosen["lines"]), strict=True))
        ended = set(runs.loc[runs["status"] != "training", "id"])
        points = frames.curves.loc[frames.curves["run"].isin(list(line))]
        points = points.assign(line=points["run"].map(line), x=points[chosen["x"]])
        points = points.sort_values("run", key=lambda ids: ids.map({id: i for i, id in enumerate(line)}), kind="stable")
        if chosen["show"] == "runs":
            table = points.assign(mean=points[y], low=points[y], high=points[y], count=1).dropna(subset=["mean"])
            return best_lines(table[["line", "x", "mean", "low", "high", "count", "run"]], chosen["top"], y)
        return best_lines(mean_curves(points, ended, y), chosen["top"], y)

    def draw(self, table: Frame, frames: Frames, chosen: dict[str, str]) -> go.Figure:
        return line_figure(table, linear(chosen), chosen["x"], chosen["y"], single=chosen["show"] == "runs")


def at_rate(runs: Frame, rate: str) -> Frame:
    """The runs at a learning rate, at the `best` of each configuration, or `all`."""
    if rate == "all":
        return runs
    at_it = runs["at_best"] if rate == "best" else np.isclose(runs["train.lr"].astype(float), float(rate), rtol=1e-9)
    return runs.loc[at_it]


def mean_curves(points: Frame, ended: set[str], y: str) -> Frame:
    """Mean, lowest and highest of the runs of each line at every x that one of them has. A run counts with its last value up to
    there: without that a mean would jump where runs that solved the task drop out. A run that has not ended counts up to its
    last point."""
    parts = []
    for line, own in points.groupby("line", sort=False):
        last = own.groupby("run")["x"].max()
        values = own.pivot(index="x", columns="run", values=y).sort_index().ffill()
        for run in [run for run in values if run not in ended]:
            values.loc[values.index > last[run], run] = np.nan
        ends = {"mean": values.mean(axis=1), "low": values.min(axis=1), "high": values.max(axis=1)}
        table = pd.DataFrame({"line": line, "x": values.index, **ends, "count": values.count(axis=1)})
        parts.append(table.dropna())
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=LINES)
