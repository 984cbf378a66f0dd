"""Figures 1 and 7: over how many decades of learning rate does a model recall?"""

import pandas as pd

from recollect.analysis.window import THRESHOLD, ZOOLOGY_RATES
from recollect.figures.panels import lines_figure, mean_and_range
from recollect.figures.window import window_figure
from recollect.papers.drawing import lines
from recollect.papers.item import Drawing, Item
from recollect.papers.judge import Evidence, Scale
from recollect.papers.okpekpe2025 import stability
from recollect.papers.okpekpe2025.settings import (
    DIFFERS,
    LARGER_BATCH,
    SETTINGS,
    WIDTHS,
    differs,
    model,
    rates_at,
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
    table = mean_and_range(runs, ["model", "train.lr"])
    if runs.empty:
        return lines_figure(table, "train.lr", "model", title=title, caption=caption, xlabel="learning rate"), table
    note = f"Band: lowest to highest seed; bars: windows at {THRESHOLD:g}; dotted: Zoology's four rates."
    return window_figure(runs, title, f"{caption} {note}"), table


FIG1 = Item(
    "fig1",
    "Accuracy against learning rate",
    "attention's window of learning rates is wide, Mamba's and Hyena's are narrow",
    draw_fig1,
    fig1_studies,
    (*stability.FIG1, *stability.MISSED),
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


def fig7_studies(scale: Scale) -> list[Study]:
    """Mamba, Mamba2 and DeltaNet with one layer, widths to 256; at `medium` also attention's runs of Figure 1."""
    if scale == "medium":
        return [
            study(
                "newer",
                scale,
                [model(mixer, scale, 128, 1) for mixer in NEWER],
                rates=rates_at(3, 5, 6, 7, 8, 9, 10, 11),
            ),
            study(
                "newer-narrow",
                scale,
                [model(mixer, scale, 64, 1) for mixer in NEWER[1:]],
                rates=rates_at(3, 5, 7, 9, 10, 11),
            ),
            study("newer-attention", scale, [model("attention", scale, WIDTH[scale], 2)]),
        ]
    widths = [32] if scale == "tiny" else [width for width in WIDTHS[scale] if width <= 256]
    models = [model(mixer, scale, widths, 1) for mixer in NEWER]
    return [study("newer", scale, models, SETTINGS[scale][-1:], **LARGER_BATCH[scale])]


def _by_rate(evidence: Evidence) -> pd.DataFrame:
    """Accuracy by width, model and learning rate."""
    runs = evidence.runs
    if len(runs):
        runs = runs.sort_values("model.width", kind="stable")
        sizes = zip(runs["model"], runs["model.layers"], strict=True)
        runs = runs.assign(
            width=[f"width {width}" for width in runs["model.width"]],
            model=[name if layers == 1 else f"{name}, {layers} layers" for name, layers in sizes],
        )
    return mean_and_range(runs, ["width", "model", "train.lr"])


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
        medium="Width 128, 8 rates from 1e-4; Mamba2 and DeltaNet also of width 64, 6 rates. Attention is that of Figure 1.",
        paper="The hardest setting; which one the paper shows is not stated.",
    ),
)
