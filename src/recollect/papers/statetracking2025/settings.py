"""What the items on state tracking share: thresholds, models, and the accuracy on longer rows."""

from typing import Any

import pandas as pd

from recollect.figures.panels import mean_and_range
from recollect.models.spec import ModelSpec
from recollect.papers.drawing import Draw, lines
from recollect.papers.estimates import Estimate
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
_PAPER = {"protocol": NAME, "seed": [42, 123, 777]}
TRAIN: dict[Scale, dict[str, Any]] = {
    "tiny": {"steps": 1500, "batch": 64, "weight_decay": 0.0, "clip": 1.0, "eval_every": 100, "eval_rows": 256, "test_rows": 1024,
             "seed": _PAPER["seed"]},
    "medium": {**_PAPER, "steps": 3000, "lr": [1e-3, 3e-3], "clip": 1.0, "eval_every": 500},
    "paper": {**_PAPER, "lr": [1e-4, 3e-4, 1e-3, 3e-3, 1e-2]},
}  # fmt: skip
"""How the items are trained; at `tiny` each has rates of its own."""


def model(mixer: Any, scale: Scale, layers: int = 1) -> dict[str, Any]:
    """Layers without MLPs; attention has rotary positions."""
    width = 32 if scale == "tiny" else 128
    fields = {"mixer": mixer, "layers": layers, "mlp": "none", "tie": False, "width": width}
    return {**fields, "positions": "rotary"} if mixer == "attention" else fields


def drawn(title: str, panel: str) -> Draw:
    """Draws accuracy at the trained length and on longer rows against the learning rate."""

    def by_rate(evidence: Evidence) -> pd.DataFrame:
        rows = {"trained length": evidence, "four times as long": on_longer_rows(evidence)}
        runs = pd.concat([one.runs.assign(rows=name) for name, one in rows.items()], ignore_index=True)
        if len(runs):
            runs["panel"] = [f"{row[panel]}, {row['rows']}" for row in runs.to_dict("records")]
        return mean_and_range(runs, [panel, "panel", "rows", "model", "train.lr"])

    note = "Band: lowest to highest seed."
    return lines(by_rate, "train.lr", "model", "panel", note=note, title=title, xlabel="learning rate", columns=2)


def longer(evidence: Evidence, mixer: Any, name: str, **values: Any) -> Estimate:
    """A mixer's accuracy on longer rows."""
    evidence = on_longer_rows(evidence)
    runs = evidence.where(model=ModelSpec(mixer=mixer).title, **values)
    return best_of_rates(evidence, runs, f"{name}, four times the length")
