"""The atlas at a glance: one row per mixer and task, a picture, and the page of the docs."""

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from recollect.analysis.window import THRESHOLD, decades_text, windows
from recollect.figures.looks import written
from recollect.figures.panels import points_figure
from recollect.probing.reference import about, read_table

COLUMNS = (
    "mixer", "best accuracy", "best rate", "window, decades", "from", "to", "sensitivity", "steps to 99 %", "state", "parameters",
)  # fmt: skip
"""Headings of the table."""


def overview(runs: pd.DataFrame) -> pd.DataFrame:
    """One row per model of one study, the widest windows first, then the highest accuracies.

    `steps`: mean over seeds of the steps to 99 % at the rate at which all seeds need the fewest; NaN where there is none.
    """
    found = windows(runs.assign(configuration=runs["model"])).set_index("configuration")
    sizes = runs.groupby("model")[["parameters", "state_size"]].first()
    table = found.join(sizes).assign(steps=pd.Series({name: _steps(part) for name, part in runs.groupby("model")}))
    return table.rename_axis("model").reset_index().sort_values(["decades", "best"], ascending=False, ignore_index=True)


def _steps(runs: pd.DataFrame) -> float:
    """The fewest steps to 99 %, over the rates at which every seed reaches it."""
    by_rate = runs.assign(solved=runs["status"] == "solved").groupby("train.lr").agg({"solved": "all", "step": "mean"})
    return float(by_rate.loc[by_rate["solved"].astype(bool), "step"].min())


def state_figure(table: pd.DataFrame) -> Figure:
    """Accuracy at the best rate against the size of the state, a panel per study, a point per model."""
    found = pd.concat(
        [overview(part).assign(study=name) for name, part in table.groupby("study", sort=False)], ignore_index=True
    )
    return points_figure(
        found.loc[found["state_size"] > 0], "state_size", "best", "model", "study",
        xlabel="numbers in the state, all layers", ylabel="accuracy at the best rate",
        caption=f"Every mixer as in the tables, by the size of its state; attention's grows with the row. Grey: {THRESHOLD:g}.",
        level=THRESHOLD,
    )  # fmt: skip


def markdown() -> str:
    """The tables of the page, a section per study."""
    made, lines = about(), []
    for name, part in read_table().groupby("study", sort=False):
        origin, layers, width = made[str(name)], int(part["model.layers"].iloc[0]), int(part["model.width"].iloc[0])
        lines += [
            f"## {name}",
            "",
            f"{origin['runs']} runs, {len(set(part['train.lr']))} learning rates, seeds {sorted(set(part['train.seed']))}; "
            f"{layers} layer{'s' * (layers > 1)}, width {width}; made on {origin['made']} on {origin['hardware']}.",
            "",
            f"| {' | '.join(COLUMNS)} |",
            "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
            *(f"| {' | '.join(atlas_cells(row))} |" for row in overview(part).to_dict("records")),
            "",
        ]
    return "\n".join(lines)


def atlas_cells(row: dict[str, Any]) -> list[str]:
    """A row of the overview as text."""
    edges = [f"{row[edge]:.1e}" if row["decades"] else "-" for edge in ("low", "high")]

    def number(name: str, form: str) -> str:
        return "-" if pd.isna(row[name]) else format(row[name], form)

    return [
        written(row["model"]), f"{row['best']:.3f}", f"{row['best_lr']:.1e}", decades_text(row), *edges,
        number("sensitivity", ".3f"), number("steps", ",.0f"), number("state_size", ",.0f"), f"{row['parameters']:,}",
    ]  # fmt: skip
