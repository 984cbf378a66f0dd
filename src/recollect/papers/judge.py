"""Claims, and the verdict of results on them.

A claim is a sentence with its thresholds and a test: a function from evidence to a finding. Tests are made of *estimates* (a
number with an interval over seeds) and of four questions: is it at least, is it at most, does it exceed another by a margin,
is it within a margin of another? A question is answered only where the whole interval gives the same answer; where it does
not, more runs would be needed. A claim that fails is refuted only at a scale that is the claim's own; anywhere else it was
merely not seen.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pandas as pd

from recollect.analysis.scaling import at_best_rate
from recollect.analysis.window import THRESHOLD, windows

Scale = Literal["tiny", "small", "medium", "paper"]
SCALES: tuple[Scale, ...] = ("tiny", "small", "medium", "paper")
Answer = Literal["holds", "does not hold", "not seen at this scale", "not enough runs"]
ANSWERS: tuple[Answer, ...] = ("does not hold", "not seen at this scale", "not enough runs", "holds")
"""In the order in which they are told: what did not hold comes first."""
MISSING = 0.05
"""The share of the runs a claim is about that may be missing (failed, say) before it is left open."""


class NotEnough(Exception):
    """The runs that a claim rests on are not there: the message says which."""


@dataclass(frozen=True)
class Evidence:
    """What an item is drawn and judged from."""

    scale: Scale
    runs: pd.DataFrame
    """One row per run that has ended, as `runs_frame` gives them."""
    asked: int
    """How many runs the item has at this scale."""
    asked_of: Mapping[str, int] = field(default_factory=dict)
    """Of these, how many each model has, by title."""
    curves: pd.DataFrame = field(default_factory=pd.DataFrame)
    """One row per run and measurement, where the item asks for curves."""
    slices: pd.DataFrame = field(default_factory=pd.DataFrame)
    """One row per run, measurement, tag and value, where the item asks for slices."""
    snapshots: pd.DataFrame = field(default_factory=pd.DataFrame)
    """One row per run and snapshot of its embeddings, where the item asks for them."""
    measured: pd.DataFrame = field(default_factory=pd.DataFrame)
    """What the item measured on trained models, where it does."""

    def where(self, **values: Any) -> pd.DataFrame:
        """The runs with these values: `model` is the model's title; `width`, `pairs`, `lr` .. any field by its last name."""
        return where(self.runs, **values)

    @property
    def seeds(self) -> int:
        """How many seeds there are."""
        return len(set(self.runs["train.seed"])) if len(self.runs) else 0


@dataclass(frozen=True)
class Estimate:
    """A number and the interval that seeds leave it."""

    name: str
    value: float
    low: float
    high: float
    seeds: int

    def __str__(self) -> str:
        return f"{self.value:.3g} ({self.low:.3g} .. {self.high:.3g})"


@dataclass(frozen=True)
class Finding:
    """What a test found: yes, no, or None for undecided, and the numbers it rests on."""

    holds: bool | None
    numbers: dict[str, str] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Claim:
    """A sentence that results can support or refute."""

    name: str
    says: str
    """The claim in words, thresholds included."""
    test: Callable[[Evidence], Finding]
    decided_at: tuple[Scale, ...] = ("paper",)
    """The scales that have the setting the claim names: only there can it be refuted."""
    about: str = ""
    """The one model it speaks of, by title: then no other model's runs need to be there."""


@dataclass(frozen=True)
class Verdict:
    """What the results at one scale say of a claim."""

    claim: str
    says: str
    answer: Answer
    numbers: dict[str, str]
    note: str
    scale: Scale
    runs: int
    asked: int
    seeds: int


def judge(claim: Claim, evidence: Evidence) -> Verdict:
    """The verdict of the evidence on a claim."""
    there, asked = len(evidence.runs), evidence.asked
    if claim.about:
        there = list(evidence.runs["model"]).count(claim.about) if there else 0
        asked = evidence.asked_of[claim.about]
    try:
        if asked and there < (1 - MISSING) * asked:
            raise NotEnough(f"{there} of {asked} runs are there")
        finding = claim.test(evidence)
    except NotEnough as missing:
        finding = Finding(None, note=str(missing))
    if finding.holds is None:
        answer: Answer = "not enough runs"
    elif finding.holds:
        answer = "holds"
    else:
        answer = "does not hold" if evidence.scale in claim.decided_at else "not seen at this scale"
    return Verdict(
        claim.name, claim.says, answer, finding.numbers, finding.note, evidence.scale, there, asked, evidence.seeds
    )  # fmt: skip


def where(frame: pd.DataFrame, **values: Any) -> pd.DataFrame:
    """The rows with these values, by column or by the last word of a column's name; at least one, or NotEnough."""
    for name, value in values.items():
        columns = [c for c in frame.columns if c == name] or [c for c in frame.columns if c.rpartition(".")[2] == name]
        if not columns:
            raise NotEnough(f"no run has {name} {value}")
        frame = frame.loc[frame[columns[0]] == value]
    if frame.empty:
        raise NotEnough("no run of " + ", ".join(f"{name} {value}" for name, value in values.items()) + " has ended")
    return frame


def best(runs: pd.DataFrame, name: str, rates: Iterable[float] | None = None) -> Estimate:
    """Accuracy at the learning rate with the highest mean, with the lowest and the highest seed: as the papers report.

    `rates`: the best among these only, not among all that were tried.
    """
    table = at_best_rate(runs.assign(all=name), ["all"], rates) if len(runs) else runs
    if table.empty:
        raise NotEnough(f"no run of {name} has ended")
    row = table.iloc[0]
    return Estimate(name, row["accuracy"], row["min"], row["max"], int(row["seeds"]))


def window_of(runs: pd.DataFrame, name: str, threshold: float = THRESHOLD, of_best: bool = False) -> Estimate:
    """Decades of learning rate at or above the threshold, with a bootstrap interval over seeds.

    A window that goes on beyond the rates tried may be of any width above that. `of_best`: the threshold is that share of
    the model's own best accuracy.
    """
    if runs.empty:
        raise NotEnough(f"no run of {name} has ended")
    row = windows(runs.assign(all=name), by="all", threshold=threshold, of_best=of_best).iloc[0]
    high = math.inf if row["open_low"] or row["open_high"] else row["interval_high"]
    return Estimate(name, row["decades"], row["interval_low"], high, int(row["seeds"]))


def spread(values: Iterable[float], name: str) -> Estimate:
    """The mean of one number per seed, with the lowest and the highest."""
    found = [float(v) for v in values if v == v]
    if not found:
        raise NotEnough(f"no value of {name}")
    return Estimate(name, sum(found) / len(found), min(found), max(found), len(found))


def at_least(estimate: Estimate, bound: float) -> Finding:
    """Whether a number is at least this: yes where all of its interval is, no where none of it is."""
    return _between(estimate.low - bound, estimate.high - bound, [estimate])


def at_most(estimate: Estimate, bound: float) -> Finding:
    """Whether a number is at most this."""
    return _between(bound - estimate.high, bound - estimate.low, [estimate])


def exceeds(more: Estimate, less: Estimate, by: float = 0.0) -> Finding:
    """Whether one number exceeds another by at least a margin. Without one, equal is not more."""
    by = by or 1e-9
    return _between(more.low - less.high - by, more.high - less.low - by, [more, less])


def within(one: Estimate, other: Estimate, margin: float) -> Finding:
    """Whether two numbers differ by at most a margin."""
    apart = max(one.high - other.low, other.high - one.low), max(one.low - other.high, other.low - one.high, 0.0)
    return _between(margin - apart[0], margin - apart[1], [one, other])


def all_of(*findings: Finding) -> Finding:
    """Yes where all are, no where one is not; the numbers of all."""
    return _joined(findings, False if any(f.holds is False for f in findings) else None if any(
        f.holds is None for f in findings) else True)  # fmt: skip


def any_of(*findings: Finding) -> Finding:
    """Yes where one is, no where none is; the numbers of all."""
    return _joined(findings, True if any(f.holds for f in findings) else None if any(
        f.holds is None for f in findings) else False)  # fmt: skip


def not_(finding: Finding) -> Finding:
    """The other answer."""
    return Finding(None if finding.holds is None else not finding.holds, finding.numbers, finding.note)


def _between(worst: float, best_case: float, estimates: list[Estimate]) -> Finding:
    """Yes where even the worst reading of the intervals is at least 0, no where even the best is not."""
    numbers = {estimate.name: str(estimate) for estimate in estimates}
    if few := [estimate.name for estimate in estimates if estimate.seeds < 2]:
        return Finding(None, numbers, f"one seed gives no interval: {', '.join(few)}")
    if worst >= -1e-12:
        return Finding(True, numbers)
    return (
        Finding(False, numbers)
        if best_case < 0
        else Finding(None, numbers, "the interval over seeds spans both answers")
    )


def _joined(findings: Iterable[Finding], holds: bool | None) -> Finding:
    """The numbers of all findings, and the notes of those that gave the answer."""
    numbers: dict[str, str] = {}
    notes: dict[str, None] = {}
    for finding in findings:
        numbers |= finding.numbers
        notes |= {finding.note: None} if finding.note and finding.holds == holds else {}
    return Finding(holds, numbers, "; ".join(notes))
