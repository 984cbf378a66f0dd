"""Figures 1 and 7: over how many decades of learning rate does a model recall?"""

from recollect.analysis.window import THRESHOLD, ZOOLOGY_RATES
from recollect.figures.panels import lines_figure, summary
from recollect.figures.window import window_figure
from recollect.papers.item import Drawing, Item
from recollect.papers.judge import Claim, Evidence, Scale
from recollect.papers.okpekpe2025.cells import printed
from recollect.papers.okpekpe2025.settings import (
    DIFFERS,
    LARGER_BATCH,
    MAIN,
    NAME,
    SETTINGS,
    WIDTHS,
    differs,
    model,
    study,
    two_layers,
)
from recollect.papers.okpekpe2025.stability import (
    NARROW,
    NOTHING,
    WIDER,
    attention_is_wider,
    is_narrow,
    larger_state_helps,
    missed_by_zoology,
    more_stable,
    only_deltanet,
    recalls_nothing,
)
from recollect.study.grid import axis
from recollect.study.spec import Study

WIDTH = {"tiny": 32, "small": 64, "paper": 64}
"""Of Figure 1."""


def fig1_studies(scale: Scale) -> list[Study]:
    """Attention, Hyena and Mamba with two layers; at `small` as at `paper`, in bfloat16."""
    if scale == "tiny":
        return two_layers(scale)
    models = [model(mixer, "paper", WIDTH[scale], 2) for mixer in MAIN]
    short = {"precision": "bfloat16"} if scale == "small" else {}
    full = study("windows", "paper", models, [(64, 4)], rates=axis("logspace", 1e-5, 1e-1, 17), **short)
    return [full.model_copy(update={"name": f"{NAME}.windows.{scale}"})]


def draw_fig1(evidence: Evidence, caption: str) -> Drawing:
    """Accuracy against learning rate, with each model's window."""
    runs = evidence.runs
    if len(runs):
        runs = runs.loc[
            (runs["model.width"] == WIDTH[evidence.scale]) & (runs["model.layers"] == 2) & runs["model"].isin(MAIN)
        ]
    title = "Figure 1: accuracy against learning rate, 2 layers"
    table = summary(runs, ["model", "train.lr"])
    if runs.empty:
        return lines_figure(table, "train.lr", "model", title=title, caption=caption, xlabel="learning rate"), table
    small_print = (
        f"{caption} Band: lowest to highest seed; bars: windows at {THRESHOLD:g}; dashed: Zoology's four rates."
    )
    return window_figure(runs.assign(configuration=runs["model"]), title, small_print), table


_OWN = {"mamba": printed(), "hyena": printed(wider_than_long="hyena")}
"""The paper names no setting for Figure 1. That of Figure 6 says that Hyena needs a width above the length."""
FIG1 = Item(
    "fig1",
    "Accuracy against learning rate",
    "attention's window of learning rates is wide, Mamba's and Hyena's are narrow",
    draw_fig1,
    fig1_studies,
    tuple(
        claim
        for name, own in _OWN.items()
        for claim in (
            Claim(
                f"wider-than-{name}",
                f"With 2 layers, attention's learning-rate window (accuracy >= {THRESHOLD}, mean over seeds) is at least {WIDER} "
                f"decades wider than {name}'s, wherever {name} has one",
                attention_is_wider(name),
                own,
            ),
            Claim(
                f"{name}-is-narrow",
                f"With 2 layers, {name} reaches {THRESHOLD} at some rate, and wherever it does over at most {NARROW:g} decade",
                is_narrow(name),
                own,
            ),
            Claim(
                f"{name}-recalls-nothing",
                f"At half of the rates or more, 2-layer {name} recalls no more than one pair in K (at most {NOTHING} / K)",
                recalls_nothing(name),
                own,
            ),
            Claim(
                f"zoology-misses-{name}",
                f"In some setting 2-layer {name} reaches {THRESHOLD} at a rate of the finer grid and at none of Zoology's four",
                missed_by_zoology(name),
                own,
            ),
        )
    ),
    {
        **differs("Setting (64, 4), width 64.", tiny="Width 32, at most 3,000 steps."),
        "small": f"As at scale paper: 50 epochs, 17 rates, (64, 4), width 64. {DIFFERS['paper']}",
    },
)

NEWER = ["mamba", "mamba2", "deltanet"]


def _widths(scale: Scale) -> list[int]:
    return [16, 32] if scale == "tiny" else [width for width in WIDTHS[scale] if width <= 256]


def fig7_studies(scale: Scale) -> list[Study]:
    """Mamba, Mamba2 and DeltaNet with one layer, widths to 256."""
    models = [model(mixer, scale, _widths(scale), 1) for mixer in NEWER]
    return [study("newer", scale, models, SETTINGS[scale][-1:], **LARGER_BATCH[scale])]


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
    (
        *(
            Claim(
                f"{wide}-over-{narrow}",
                f"With 1 layer and the largest width, {wide}'s window (accuracy >= {THRESHOLD}) is at least {WIDER} decades "
                f"wider than {narrow}'s",
                more_stable(wide, narrow),
                printed(),
            )
            for wide, narrow in (("deltanet", "mamba2"), ("mamba2", "mamba"))
        ),
        Claim(
            "only-deltanet-like-attention",
            f"1-layer DeltaNet's window is no more than {WIDER} decades narrower than that of 2-layer attention, and those of "
            f"Mamba and Mamba2 are at least {WIDER} narrower, each at its largest width",
            only_deltanet,
            printed(),
        ),
        Claim(
            "larger-state-helps",
            "The windows of 1-layer Mamba2 and DeltaNet are wider at the largest width, and so state, than at the smallest",
            larger_state_helps,
            printed(),
        ),
    ),
    differs("The hardest setting; which one the paper shows is not stated.", tiny="Batch 64 in this item."),
)
