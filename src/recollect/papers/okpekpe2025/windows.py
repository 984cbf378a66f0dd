"""Figures 1 and 7: over how many decades of learning rate does a model recall?"""

import pandas as pd

from recollect.analysis.window import THRESHOLD, ZOOLOGY_RATES
from recollect.figures.panels import lines_figure, summary
from recollect.figures.window import window_figure
from recollect.papers.item import Drawing, Item
from recollect.papers.judge import Claim, Evidence, Finding, Scale, all_of, at_least, at_most, best, exceeds, window_of
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

WIDER = 0.25
"""Decades by which a window must be wider to count: a quarter, the grid's step at scale `paper`."""
NARROW = 1.0
"""Decades that a narrow window has at most."""
WIDTH = {"tiny": 32, "small": 64, "medium": 64, "paper": 64}
"""Of Figure 1."""


def wider(wide: pd.DataFrame, narrow: pd.DataFrame, names: tuple[str, str], own_scale: bool) -> Finding:
    """Whether one model's window is wider than another's. A model that solves at no rate has none to compare, except at the
    claim's own scale, where that is an answer."""
    solves = best(narrow, f"{names[1]}: best accuracy")
    widths = [window_of(runs, f"{name}: decades") for runs, name in zip((wide, narrow), names, strict=True)]
    if solves.high < THRESHOLD and not own_scale:
        numbers = {estimate.name: str(estimate) for estimate in (solves, *widths)}
        return Finding(False, numbers, f"{names[1]} solves at no rate here, so that there is no window to compare")
    return exceeds(*widths, by=WIDER)


def fig1_studies(scale: Scale) -> list[Study]:
    """Attention, Hyena and Mamba with two layers."""
    return two_layers(scale) if scale == "tiny" else windows(scale)


def _fig1_runs(evidence: Evidence, name: str) -> pd.DataFrame:
    return evidence.where(model=name, width=WIDTH[evidence.scale], layers=2)


def _attention_is_wider(other: str):
    def test(evidence: Evidence) -> Finding:
        wide, narrow = _fig1_runs(evidence, "attention"), _fig1_runs(evidence, other)
        return wider(wide, narrow, ("attention", other), own_scale=evidence.scale != "tiny")

    return test


def _is_narrow(name: str):
    def test(evidence: Evidence) -> Finding:
        runs = _fig1_runs(evidence, name)
        reached = best(runs, f"{name}: best accuracy")
        return all_of(at_least(reached, THRESHOLD), at_most(window_of(runs, f"{name}: decades"), NARROW))

    return test


def draw_fig1(evidence: Evidence, caption: str) -> Drawing:
    """Accuracy against learning rate, with each model's window."""
    runs = evidence.runs
    if len(runs):
        own = zip(runs["model"], runs["model.width"], strict=True)
        name = [model if width == WIDTH[evidence.scale] else f"{model}, width {width}" for model, width in own]
        runs = runs.assign(configuration=name, model=name)
    title = "Figure 1: accuracy against learning rate, 2 layers"
    table = summary(runs, ["model", "train.lr"])
    if runs.empty:
        return lines_figure(table, "train.lr", "model", title=title, caption=caption, xlabel="learning rate"), table
    small_print = (
        f"{caption} Band: lowest to highest seed; bars: windows at {THRESHOLD:g}; dashed: Zoology's four rates."
    )
    return window_figure(runs, title, small_print), table


BOTH: tuple[Scale, ...] = ("small", "paper")
FIG1 = Item(
    "fig1",
    "Accuracy against learning rate",
    "attention's window of learning rates is wide, Mamba's and Hyena's are narrow",
    draw_fig1,
    fig1_studies,
    (
        *(
            Claim(
                f"wider-than-{name}",
                f"With 2 layers, attention's learning-rate window (accuracy >= {THRESHOLD}) is at least {WIDER} decades wider "
                f"than {name}'s",
                _attention_is_wider(name),
                BOTH,
            )
            for name in ("mamba", "hyena")
        ),
        *(
            Claim(
                f"{name}-is-narrow",
                f"With 2 layers, {name} reaches {THRESHOLD} at some rate, over at most {NARROW:g} decade of rates",
                _is_narrow(name),
                BOTH,
            )
            for name in ("mamba", "hyena")
        ),
    ),
    {
        **differs(
            "Setting (64, 4), width 64.",
            tiny="Width 32, at most 2,500 steps, six rates.",
            medium="13 rates, 3 seeds (Mamba 5), width 64; Hyena of width 128: 7 rates.",
        ),
        "small": f"As at scale paper: 50 epochs, 17 rates, (64, 4), width 64. {DIFFERS['paper']}",
    },
)

NEWER = ["mamba", "mamba2", "deltanet"]


def _widths(scale: Scale) -> list[int]:
    return {"tiny": [32], "medium": [128]}.get(scale) or [width for width in WIDTHS[scale] if width <= 256]


def fig7_studies(scale: Scale) -> list[Study]:
    """Mamba, Mamba2 and DeltaNet with one layer, widths to 256."""
    models = [model(mixer, scale, _widths(scale), 1) for mixer in NEWER]
    rates = FINE[scale][3:] if scale == "medium" else None
    return [study("newer", scale, models, SETTINGS[scale][-1:], rates=rates, **LARGER_BATCH[scale])]


def _more_stable(wide: str, narrow: str):
    def test(evidence: Evidence) -> Finding:
        width = _widths(evidence.scale)[-1]
        one, other = evidence.where(model=wide, width=width), evidence.where(model=narrow, width=width)
        return wider(one, other, (wide, narrow), own_scale=evidence.scale == "paper")

    return test


def draw_fig7(evidence: Evidence, caption: str) -> Drawing:
    """Accuracy against learning rate, a panel per width."""
    runs = evidence.runs
    if len(runs):
        runs = runs.assign(width=[f"width {width}" for width in runs["model.width"]])
    table = summary(runs, ["width", "model", "train.lr"])
    figure = lines_figure(
        table, "train.lr", "model", "width", title="Figure 7: newer 1-layer models", caption=caption, xlabel="learning rate",
        marks=ZOOLOGY_RATES,
    )  # fmt: skip
    return figure, table


FIG7 = Item(
    "fig7",
    "Newer recurrent models with one layer",
    "the windows of DeltaNet, Mamba2 and Mamba, the first the widest",
    draw_fig7,
    fig7_studies,
    tuple(
        Claim(
            f"{wide}-over-{narrow}",
            f"With 1 layer and the largest width, {wide}'s window (accuracy >= {THRESHOLD}) is at least {WIDER} decades wider "
            f"than {narrow}'s",
            _more_stable(wide, narrow),
        )
        for wide, narrow in (("deltanet", "mamba2"), ("mamba2", "mamba"))
    ),
    differs(
        "Setting (64, 4); which one the paper shows is not stated.",
        tiny="Batch 64 in this item.",
        medium="Width 128, 10 rates from 1e-4.",
        paper="The hardest setting; which one the paper shows is not stated.",
    ),
)
