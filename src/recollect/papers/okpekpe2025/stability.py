"""The claims of Figures 1, 5 and 7 about learning-rate windows."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from recollect.analysis.window import THRESHOLD, ZOOLOGY_RATES
from recollect.papers.estimates import Estimate, NotEnough, mean_of
from recollect.papers.judge import Claim, Evidence
from recollect.papers.okpekpe2025.cells import cells, common, pairs, printed, with_zoologys_rates
from recollect.papers.questions import Finding, all_of, any_of, at_least, at_most, every, exceeds, not_

WIDER = 0.25
"""Decades by which a window must be wider to count: a quarter, the grid's step at scale `paper`."""
NARROW, NOTHING = 1.0, 1.1
"""The most decades of a narrow window; the most pairs that a model recalls where it recalls nothing."""


def wider(
    evidence: Evidence, wide: pd.DataFrame, narrow: pd.DataFrame, names: tuple[str, str], by: float = WIDER
) -> Finding:
    """Whether one model's window is wider than another's, in every setting in which the narrower one has a window at all."""
    shared = common(wide, narrow)
    solved = {at: rows for at, rows in shared.items() if evidence.best(rows[1], names[1]).value >= THRESHOLD}
    if not solved:
        best = max(
            (evidence.best(rows[1], f"{names[1]} {at}") for at, rows in shared.items()), key=lambda one: one.value
        )
        needs = best.needs if best.could_rise else "not seen at this scale"
        raise NotEnough(f"{names[1]} solves at no rate ({best}), so that there is no window to compare", needs)

    def compared(at: str) -> Finding:
        found = [evidence.window(rows, f"{name} {at}: decades") for rows, name in zip(solved[at], names, strict=True)]
        return exceeds(*found, by=by)

    return every(solved, compared)


def _two_layers(evidence: Evidence, name: str) -> pd.DataFrame:
    return evidence.where(model=name, layers=2)


def _attention_is_wider(other: str) -> Callable[[Evidence], Finding]:
    """Whether 2-layer attention's window is wider than another model's."""

    def test(evidence: Evidence) -> Finding:
        return wider(evidence, _two_layers(evidence, "attention"), _two_layers(evidence, other), ("attention", other))

    return test


def _is_narrow(name: str) -> Callable[[Evidence], Finding]:
    """Whether a model solves in some setting, and wherever it does only over few rates."""

    def narrow(evidence: Evidence, at: str, rows: pd.DataFrame) -> Finding:
        return any_of(
            at_most(evidence.window(rows, f"{name} {at}: decades"), NARROW),
            not_(at_least(evidence.best(rows, f"{name} {at}: best accuracy"), THRESHOLD)),
        )

    def test(evidence: Evidence) -> Finding:
        found = cells(_two_layers(evidence, name))

        def solves() -> Finding:
            best = [evidence.best(rows, f"{name} {at}: best accuracy") for at, rows in found.items()]
            solved = any_of(*(at_least(one, THRESHOLD) for one in best))
            if solved.holds is False and evidence.scale != "paper":
                highest = max(best, key=lambda one: one.value)
                raise NotEnough(f"{name} solves in no setting that was tried ({highest})", "not seen at this scale")
            return solved

        return all_of(every(found, lambda at: narrow(evidence, at, found[at])), solves)

    return test


def _recalls_nothing(name: str) -> Callable[[Evidence], Finding]:
    """Whether a model recalls at most one pair at most of the rates tried."""

    def test(evidence: Evidence) -> Finding:
        found = cells(_two_layers(evidence, name))

        def share(at: str) -> Finding:
            runs = found[at]
            nothing = runs.assign(nothing=runs["accuracy"].fillna(0.0) <= NOTHING / pairs(runs))
            shares = [float(np.mean(rows["nothing"].to_numpy(bool))) for _, rows in nothing.groupby("train.seed")]
            return at_least(mean_of(shares, f"{name} {at}: share of rates at one pair or less"), 0.5)

        return every(found, share)

    return test


def _missed_by_zoology(name: str) -> Callable[[Evidence], Finding]:
    """Whether a model solves at a rate of the finer grid, and at none of Zoology's four, in some setting."""

    def missed(evidence: Evidence, at: str, rows: pd.DataFrame) -> Finding:
        fine = evidence.best(rows, f"{name} {at}: finer grid")
        four = evidence.best(rows, f"{name} {at}: Zoology's four rates", ZOOLOGY_RATES)
        return all_of(at_least(fine, THRESHOLD), not_(at_least(four, THRESHOLD)))

    def test(evidence: Evidence) -> Finding:
        found = with_zoologys_rates(_two_layers(evidence, name))
        return any_of(*(lambda at=at, rows=rows: missed(evidence, at, rows) for at, rows in found.items()))

    return test


def _widest(evidence: Evidence, name: str, layers: int = 1) -> pd.DataFrame:
    """The runs of a model at the largest width that it was tried at."""
    runs = evidence.where(model=name, layers=layers)
    return runs.loc[runs["model.width"] == runs["model.width"].max()]


def _more_stable(wide: str, narrow: str, by: float) -> Callable[[Evidence], Finding]:
    """Whether the window of one 1-layer model is wider than another's, each at its largest width."""

    def test(evidence: Evidence) -> Finding:
        return wider(evidence, _widest(evidence, wide), _widest(evidence, narrow), (wide, narrow), by)

    return test


def _only_deltanet(evidence: Evidence) -> Finding:
    """Whether DeltaNet's window is as wide as that of 2-layer attention, and Mamba's and Mamba2's are not."""

    def decades(name: str) -> Estimate:
        return evidence.window(_widest(evidence, name), f"{name}: decades")

    attention = evidence.window(_widest(evidence, "attention", layers=2), "attention, 2 layers: decades")
    return all_of(
        lambda: exceeds(decades("deltanet"), attention, by=-WIDER),
        *(lambda name=name: exceeds(attention, decades(name), by=WIDER) for name in ("mamba", "mamba2")),
    )


def _larger_state_helps(evidence: Evidence) -> Finding:
    """Whether the windows of Mamba2 and DeltaNet grow from the smallest to the largest width."""

    def helps(name: str) -> Finding:
        runs = evidence.where(model=name, layers=1)
        ends = [
            runs.loc[runs["model.width"] == width] for width in (runs["model.width"].max(), runs["model.width"].min())
        ]
        if ends[0].equals(ends[1]):
            raise NotEnough(f"{name} was tried at one width")
        found = [evidence.window(rows, f"{name} width {rows['model.width'].iloc[0]}: decades") for rows in ends]
        return exceeds(found[0], found[1])

    return every(("mamba2", "deltanet"), helps)


_OWN = {"mamba": printed(), "hyena": printed(wider_than_long="hyena")}
"""The paper names no setting for Figure 1. That of Figure 6 says that Hyena needs a width above the length."""
FIG1 = tuple(
    claim
    for name, own in _OWN.items()
    for claim in (
        Claim(
            f"wider-than-{name}",
            f"With 2 layers, attention's learning-rate window (accuracy >= {THRESHOLD}; mean of the seeds' windows) is at least "
            f"{WIDER} decades wider than {name}'s, wherever {name} has one",
            _attention_is_wider(name),
            own,
        ),
        Claim(
            f"{name}-is-narrow",
            f"With 2 layers, {name} reaches {THRESHOLD} in some setting, and wherever it does over at most {NARROW:g} decade",
            _is_narrow(name),
            own,
        ),
        Claim(
            f"{name}-recalls-nothing",
            f"At half of the rates or more, 2-layer {name} recalls no more than one pair in K (at most {NOTHING} / K)",
            _recalls_nothing(name),
            own,
        ),
    )
)
MISSED = tuple(
    Claim(
        f"zoology-misses-{name}",
        f"In some setting 2-layer {name} reaches {THRESHOLD} at a rate of the finer grid and at none of Zoology's four",
        _missed_by_zoology(name),
        printed(in_each=True),
    )
    for name in _OWN
)
"""Figures 1 and 2 make the same claims; one setting cannot refute them."""
FIG7 = (
    Claim(
        "deltanet-over-mamba2",
        f"With 1 layer and the largest width, DeltaNet's window (accuracy >= {THRESHOLD}) is at least {WIDER} decades wider than "
        "Mamba2's",
        _more_stable("deltanet", "mamba2", WIDER),
        printed(),
    ),
    Claim(
        "mamba2-over-mamba",
        f"With 1 layer and the largest width, Mamba2's window (accuracy >= {THRESHOLD}) is wider than Mamba's (paper: slightly)",
        _more_stable("mamba2", "mamba", 0.0),
        printed(),
    ),
    Claim(
        "only-deltanet-like-attention",
        f"1-layer DeltaNet's window is no more than {WIDER} decades narrower than that of 2-layer attention, and those of "
        f"Mamba and Mamba2 are at least {WIDER} narrower, each at its largest width",
        _only_deltanet,
        printed(),
    ),
    Claim(
        "larger-state-helps",
        "(one reading of an earlier version's caption) The windows of 1-layer Mamba2 and DeltaNet are wider at the largest "
        "width, and so state, than at the smallest",
        _larger_state_helps,
        printed(),
    ),
)
