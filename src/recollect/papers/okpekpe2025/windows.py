"""Figures 1 and 7: over how many decades of learning rate does a model recall?"""

import pandas as pd

from recollect.analysis.window import THRESHOLD, ZOOLOGY_RATES
from recollect.figures.panels import lines_figure, summary
from recollect.figures.window import window_figure
from recollect.papers.drawing import lines
from recollect.papers.item import Drawing, Item
from recollect.papers.judge import Evidence, Scale
from recollect.papers.okpekpe2025 import stability
from recollect.papers.okpekpe2025.settings import (
    DIFFERS,
    FINE,
    LARGER_BATCH,
    SETTINGS,
    WIDTHS,
    differs,
    model,
    study,
    two_layers,
    windows,
)
from recollect.study.spec import Study

WIDTH = {"tiny": 32, "small": 64, "medium": 64, "paper": 64}
"""Of Figure 1."""


def fig1_studies(scale: Scale) -> list[Study]:
    """Attention, Hyena and Mamba with two layers."""
    return two_layers(scale) if scale == "tiny" else windows(scale)


def draw_fig1(evidence: Evidence, caption: str) -> Drawing:
    """Accuracy against learning rate, with each model's window."""
    runs = evidence.runs
    if len(runs):
        own = zip(runs["model"], runs["model.width"], strict=True)
        name = [model if width == WIDTH[evidence.scale] else f"{model}, width {width}" for model, width in own]
        runs = runs.assign(configuration=name, model=name)
    title = "Accuracy against learning rate, 2 layers"
    table = summary(runs, ["model", "train.lr"])
    if runs.empty:
        return lines_figure(table, "train.lr", "model", title=title, caption=caption, xlabel="learning rate"), table
    note = f"Band: lowest to highest seed; bars: windows at {THRESHOLD:g}; dashed: Zoology's four rates."
    return window_figure(runs, title, f"{caption} {note}"), table


FIG1 = Item(
    "fig1",
    "Accuracy against learning rate",
    "attention's window of learning rates is wide, Mamba's and Hyena's are narrow",
    draw_fig1,
    fig1_studies,
    stability.FIG1,
    {
        **differs(
            "Setting (64, 4), width 64.",
            tiny="Width 32, at most 2,500 steps, six rates.",
            medium="15 rates (Hyena 13), 3 seeds (Mamba 5), width 64; Hyena of width 128: 7 rates.",
        ),
        "small": f"As at scale paper: 50 epochs, 17 rates, (64, 4), width 64. {DIFFERS['paper']}",
    },
)

NEWER = ["mamba", "mamba2", "deltanet"]


def _widths(scale: Scale) -> list[int]:
    return {"tiny": [32], "medium": [64, 128]}.get(scale) or [width for width in WIDTHS[scale] if width <= 256]


def fig7_studies(scale: Scale) -> list[Study]:
    """Mamba, Mamba2 and DeltaNet with one layer, widths to 256."""
    models = [model(mixer, scale, _widths(scale), 1) for mixer in NEWER]
    rates = FINE[scale][3:] if scale == "medium" else None
    return [study("newer", scale, models, SETTINGS[scale][-1:], rates=rates, **LARGER_BATCH[scale])]


def _by_rate(evidence: Evidence) -> pd.DataFrame:
    """Accuracy by width, model and learning rate."""
    runs = evidence.runs
    if len(runs):
        runs = runs.assign(width=[f"width {width}" for width in runs["model.width"]])
    return summary(runs, ["width", "model", "train.lr"])


FIG7 = Item(
    "fig7",
    "Newer recurrent models with one layer",
    "the windows of DeltaNet, Mamba2 and Mamba, the first the widest",
    lines(
        _by_rate,
        "train.lr",
        "model",
        "width",
        title="Newer 1-layer models",
        xlabel="learning rate",
        marks=ZOOLOGY_RATES,
    ),
    fig7_studies,
    stability.FIG7,
    differs(
        "Setting (64, 4); which one the paper shows is not stated.",
        tiny="Batch 64 in this item.",
        medium="Widths 64 and 128, 10 rates from 1e-4.",
        paper="The hardest setting; which one the paper shows is not stated.",
    ),
)
