"""Figures 1 and 7: over how many decades of learning rate does a model recall?"""

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from recollect.analysis.window import THRESHOLD, ZOOLOGY_RATES
from recollect.figures.panels import lines_figure, mean_and_range
from recollect.figures.window import window_figure
from recollect.papers.estimates import Estimate, NotEnough, mean_of
from recollect.papers.item import Drawing, Item, lines
from recollect.papers.judge import Claim, Evidence, Scale, claim, claims
from recollect.papers.okpekpe2025 import settings
from recollect.papers.okpekpe2025.cells import PRINTED, cells, common, pairs, printed, widest, with_zoologys_rates
from recollect.papers.okpekpe2025.settings import differs, rates_at, study, two_layers, windows
from recollect.papers.questions import Finding, all_of, any_of, at_least, at_most, every, exceeds, not_
from recollect.study.spec import Study

BY_RATE: dict[str, Any] = {
    "xlabel": "learning rate", "marks": ZOOLOGY_RATES,
    "note": "Line: mean; band: lowest to highest seed; dotted: Zoology's four rates.",
}  # fmt: skip
"""How accuracy against learning rate is drawn."""
WIDER = 0.25
"""Decades by which a window must be wider to count: a quarter, the grid's step at scale `paper`."""
NARROW, NOTHING = 1.0, 1.1
"""The most decades of a narrow window; the most pairs that a model recalls where it recalls nothing."""
WIDTH = {"tiny": 32, "small": 64, "medium": 64, "paper": 64}
"""Of Figure 1."""


def fig1_studies(scale: Scale) -> list[Study]:
    """Attention, Hyena and Mamba with two layers."""
    return two_layers(scale) if scale == "tiny" else windows(scale)


def draw_fig1(evidence: Evidence, caption: str) -> Drawing:
    """Accuracy against learning rate, with each model's window."""
    own = zip(evidence.runs["model"], evidence.runs["model.width"], strict=True)
    name = [model if width == WIDTH[evidence.scale] else f"{model}, width {width}" for model, width in own]
    runs = evidence.runs.assign(configuration=name, model=name)
    title = "Accuracy against learning rate, 2 layers"
    table = mean_and_range(runs, ["model", "train.lr"])
    if runs.empty:
        return lines_figure(table, "train.lr", "model", title=title, caption=caption, xlabel="learning rate"), table
    note = f"{BY_RATE['note']} Bars and decades: windows of the mean curve at {THRESHOLD:g}."
    return window_figure(runs, title, f"{caption} {note}"), table


def wider(
    evidence: Evidence, wide: pd.DataFrame, narrow: pd.DataFrame, names: tuple[str, str], by: float = WIDER
) -> Finding:
    """Whether one model's window is wider than another's, in every setting in which the narrower one has a window at all."""
    shared = common(wide, narrow)
    solved = {at: rows for at, rows in shared.items() if evidence.best(rows[1], names[1]).value >= THRESHOLD}
    if not solved:
        tried = (evidence.best(rows[1], f"{names[1]} {at}") for at, rows in shared.items())
        best = max(tried, key=lambda one: one.value)
        needs = best.needs if best.could_rise else "not seen at this scale"
        raise NotEnough(f"{names[1]} solves at no rate ({best}), so that there is no window to compare", needs)

    def compared(at: str) -> Finding:
        found = [evidence.window(rows, f"{name} {at}: decades") for rows, name in zip(solved[at], names, strict=True)]
        return exceeds(*found, by=by)

    return every(solved, compared)


_OWN = {"mamba": printed(), "hyena": printed(wider_than_long="hyena")}
"""The paper names no setting for Figure 1. That of Figure 6 says that Hyena needs a width above the length."""


@claims("wider-than-{name}", _OWN, _OWN)
def _attention_is_wider(other: str, evidence: Evidence) -> Finding:
    """With 2 layers, attention's learning-rate window (accuracy >= {THRESHOLD}; mean of the seeds' windows) is at least {WIDER}
    decades wider than {name}'s, wherever {name} has one"""
    attention, less = (evidence.where(model=name, layers=2) for name in ("attention", other))
    return wider(evidence, attention, less, ("attention", other))


def _where_it_solves(evidence: Evidence, name: str, test: Callable[[str, pd.DataFrame], Finding]) -> Finding:
    """Whether a model solves in some setting, and a test holds wherever it does. In a setting in which it does not solve, the
    sentences about Figure 1 would say nothing."""
    found = cells(evidence.where(model=name, layers=2))
    best = {at: evidence.best(rows, f"{name} {at}: best accuracy") for at, rows in found.items()}
    solved = {at: at_least(one, THRESHOLD) for at, one in best.items()}

    def solves() -> Finding:
        some = any_of(*solved.values())
        if some.holds is False and evidence.scale != "paper":
            highest = max(best.values(), key=lambda one: one.value)
            raise NotEnough(f"{name} solves in no setting that was tried ({highest})", "not seen at this scale")
        return some

    return all_of(every(found.items(), lambda at, rows: any_of(test(at, rows), not_(solved[at]))), solves)


@claims("{name}-is-narrow", _OWN, _OWN)
def _is_narrow(name: str, evidence: Evidence) -> Finding:
    """With 2 layers, {name} reaches {THRESHOLD} in some setting, and wherever it does over at most {NARROW:g} decade"""

    def narrow(at: str, rows: pd.DataFrame) -> Finding:
        return at_most(evidence.window(rows, f"{name} {at}: decades"), NARROW)

    return _where_it_solves(evidence, name, narrow)


@claims("{name}-recalls-nothing", _OWN, _OWN)
def _recalls_nothing(name: str, evidence: Evidence) -> Finding:
    """With 2 layers, {name} reaches {THRESHOLD} in some setting, and wherever it does recalls no more than one pair in K (at
    most {NOTHING} / K) at half of the rates tried or more"""

    def share(at: str, runs: pd.DataFrame) -> Finding:
        nothing = runs.assign(nothing=runs["accuracy"].fillna(0.0) <= NOTHING / pairs(runs))
        shares = [float(np.mean(rows["nothing"].to_numpy(bool))) for _, rows in nothing.groupby("train.seed")]
        return at_least(mean_of(shares, f"{name} {at}: share of rates at one pair or less"), 0.5)

    return _where_it_solves(evidence, name, share)


@claims("zoology-misses-{name}", _OWN, printed(in_each=True))
def missed(name: str, evidence: Evidence) -> Finding:
    """In some setting 2-layer {name} reaches {THRESHOLD} at a rate of the finer grid and at none of Zoology's four"""

    def only_finer(at: str, rows: pd.DataFrame) -> Finding:
        fine = evidence.best(rows, f"{name} {at}: finer grid")
        four = evidence.best(rows, f"{name} {at}: Zoology's four rates", ZOOLOGY_RATES)
        return all_of(at_least(fine, THRESHOLD), not_(at_least(four, THRESHOLD)))

    found = with_zoologys_rates(evidence.where(model=name, layers=2))
    return any_of(*(partial(only_finer, at, rows) for at, rows in found.items()))


FIG1 = Item(
    "fig1", "Accuracy against learning rate", "attention's window of learning rates is wide, Mamba's and Hyena's are narrow",
    draw_fig1, fig1_studies, (*chain(*zip(_attention_is_wider, _is_narrow, _recalls_nothing, strict=True)), *missed),
    {
        **differs(
            "Setting (64, 4), width 64.",
            medium="15 rates (Hyena 13), 3 seeds (Mamba 5), width 64; Hyena of width 128: 7 rates.",
        ),
        "tiny": settings.TWO_LAYERS_TINY,
        "small": f"As at scale paper: 50 epochs, 17 rates, (64, 4), width 64. {settings.DIFFERS['paper']}",
    },
)  # fmt: skip

NEWER = ["mamba", "mamba2", "deltanet"]


def fig7_studies(scale: Scale) -> list[Study]:
    """Mamba, Mamba2 and DeltaNet with one layer, widths to 256; at `medium` also attention's runs of Figure 1."""
    if scale == "medium":
        return [
            study("newer", scale, NEWER, 128, 1, rates=rates_at(3, 5, 6, 7, 8, 9, 10, 11)),
            study("newer-narrow", scale, NEWER[1:], 64, 1, rates=rates_at(3, 5, 7, 9, 10, 11)),
            study("newer-attention", scale, ["attention"], WIDTH[scale], 2),
        ]
    widths = [32] if scale == "tiny" else [width for width in settings.WIDTHS[scale] if width <= 256]
    return [study("newer", scale, NEWER, widths, 1, settings.SETTINGS[scale][-1:], **settings.LARGER_BATCH[scale])]


def _by_rate(evidence: Evidence) -> pd.DataFrame:
    """Accuracy by width, model and learning rate."""
    runs = evidence.runs.sort_values("model.width", kind="stable")
    sizes = zip(runs["model"], runs["model.layers"], strict=True)
    runs = runs.assign(
        width=[f"width {width}" for width in runs["model.width"]],
        model=[name if layers == 1 else f"{name}, {layers} layers" for name, layers in sizes],
    )
    return mean_and_range(runs, ["width", "model", "train.lr"])


def _widest(evidence: Evidence, name: str, layers: int = 1) -> pd.DataFrame:
    """The runs of a model at the largest width that it was tried at."""
    return widest(evidence.where(model=name, layers=layers))


def _more_stable(evidence: Evidence, wide: str, narrow: str, by: float) -> Finding:
    """Whether the window of one 1-layer model is wider than another's, each at its largest width."""
    return wider(evidence, _widest(evidence, wide), _widest(evidence, narrow), (wide, narrow), by)


@claim("only-deltanet-like-attention", PRINTED)
def _only_deltanet(evidence: Evidence) -> Finding:
    """1-layer DeltaNet's window is no more than {WIDER} decades narrower than that of 2-layer attention, and those of Mamba
    and Mamba2 are at least {WIDER} narrower, each at its largest width"""

    def decades(name: str) -> Estimate:
        return evidence.window(_widest(evidence, name), f"{name}: decades")

    attention = evidence.window(_widest(evidence, "attention", layers=2), "attention, 2 layers: decades")
    return all_of(
        lambda: exceeds(decades("deltanet"), attention, by=-WIDER),
        *(lambda name=name: exceeds(attention, decades(name), by=WIDER) for name in ("mamba", "mamba2")),
    )


@claim("larger-state-helps", PRINTED)
def _larger_state_helps(evidence: Evidence) -> Finding:
    """(one reading of an earlier version's caption) The windows of 1-layer Mamba2 and DeltaNet are wider at the largest
    width, and so state, than at the smallest"""

    def helps(name: str) -> Finding:
        runs = evidence.where(model=name, layers=1)
        widths = sorted(set(runs["model.width"]))
        if len(widths) == 1:
            raise NotEnough(f"{name} was tried at one width")
        small, large = (
            evidence.window(runs.loc[runs["model.width"] == width], f"{name} width {width}: decades")
            for width in (widths[0], widths[-1])
        )
        return exceeds(large, small)

    return every(("mamba2", "deltanet"), helps)


FIG7 = Item(
    "fig7", "Newer recurrent models with one layer", "the windows of DeltaNet, Mamba2 and Mamba, the first the widest",
    lines(_by_rate, "train.lr", "model", "width", title="Newer 1-layer models", **BY_RATE),
    fig7_studies,
    (
        Claim("deltanet-over-mamba2", f"With 1 layer and the largest width, DeltaNet's window (accuracy >= {THRESHOLD}) is at "
              f"least {WIDER} decades wider than Mamba2's", lambda e: _more_stable(e, "deltanet", "mamba2", WIDER), PRINTED),
        Claim("mamba2-over-mamba", f"With 1 layer and the largest width, Mamba2's window (accuracy >= {THRESHOLD}) is wider than "
              "Mamba's (paper: slightly)", lambda e: _more_stable(e, "mamba2", "mamba", 0.0), PRINTED),
        _only_deltanet,
        _larger_state_helps,
    ),
    differs(
        "Setting (64, 4); which one the paper shows is not stated.", batch=64,
        medium="Width 128, 8 rates from 1e-4; Mamba2 and DeltaNet also of width 64, 6 rates. Attention is that of Figure 1.",
        paper="The hardest setting; which one the paper shows is not stated.",
    ),
)  # fmt: skip
