"""Figures 8 to 10: the ablated architectures as diagrams."""

import pandas as pd

from recollect.figures.text import text_figure
from recollect.models.diagram import diagram
from recollect.models.spec import ModelSpec
from recollect.papers.item import Drawing, Item
from recollect.papers.judge import Evidence
from recollect.tasks import as_task

MODELS = {
    "S6 as the mixer of a Transformer layer": "s6",
    "Mamba without conv1d": {"kind": "mamba", "conv": False},
    "Mamba without the gate": {"kind": "mamba", "gate": False},
}


def draw(evidence: Evidence, caption: str) -> Drawing:
    """The three diagrams under each other."""
    task = as_task({"kind": "mqar"})
    specs = {title: ModelSpec.model_validate({"mixer": mixer, "layers": 1}) for title, mixer in MODELS.items()}
    text = "\n".join(f"{title}\n\n{diagram(spec, task)}" for title, spec in specs.items())
    table = pd.DataFrame({"figure": list(specs), "model": [spec.title for spec in specs.values()]})
    return text_figure(text, "Figures 8 to 10: ablated architectures", caption), table


FIG8 = Item("fig8-10", "Ablated architectures", "diagrams of S6 + MLP, Mamba without conv1d and without gate", draw)
