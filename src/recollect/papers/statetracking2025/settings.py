"""What the items on state tracking share: thresholds, models, and the accuracy on longer rows."""

from typing import Any

import pandas as pd

from recollect.figures.panels import lines_figure, summary
from recollect.models.spec import ModelSpec
from recollect.papers.estimates import Estimate
from recollect.papers.item import Drawing
from recollect.papers.judge import Evidence, Scale
from recollect.papers.longer_rows import best_of_rates, on_longer_rows

NAME = "statetracking2025"
TIMES = 4
"""How many times as long as the longest trained rows the test's are."""
SOLVES, SCALED, BETTER = 0.95, 0.2, 0.2
"""The accuracy from which a task is solved; up to which scaled accuracy, 0 at chance and 1 where all is right, it is not learnt;
by how much more steps must be better."""
OWN: tuple[Any, ...] = ("medium", "paper")
"""The scales that have the lengths which the papers train on."""
SEEDS = [42, 123, 777]


def model(mixer: Any, scale: Scale, layers: int = 1) -> dict[str, Any]:
    """Layers without MLPs; attention has rotary positions."""
    width = 32 if scale == "tiny" else 128
    fields = {"mixer": mixer, "layers": layers, "mlp": "none", "tie": False, "width": width}
    return {**fields, "positions": "rotary"} if mixer == "attention" else fields


def drawn(evidence: Evidence, by: list[str], title: str, panel: str, caption: str) -> Drawing:
    """Accuracy at the trained length and on longer rows against the learning rate."""
    parts = [
        evidence.runs.assign(rows="trained length"),
        on_longer_rows(evidence).runs.assign(rows="four times as long"),
    ]
    runs = pd.concat(parts, ignore_index=True) if len(evidence.runs) else pd.DataFrame()
    if len(runs):
        runs["panel"] = [f"{row[panel]}, {row['rows']}" for row in runs.to_dict("records")]
    table = summary(runs, [*by, "panel", "rows", "model", "train.lr"])
    figure = lines_figure(
        table, "train.lr", "model", "panel", title=title, caption=f"{caption} Band: lowest to highest seed.",
        xlabel="learning rate", columns=2,
    )  # fmt: skip
    return figure, table


def longer(evidence: Evidence, mixer: Any, name: str, **values: Any) -> Estimate:
    """A mixer's accuracy on longer rows."""
    evidence = on_longer_rows(evidence)
    runs = evidence.where(model=ModelSpec(mixer=mixer).title, **values)
    return best_of_rates(evidence, runs, f"{name}, four times the length")
