"""Claims, and the verdict of results on them.

A claim is a sentence with its thresholds and a test: a function from evidence to a finding, made of estimates and questions to
them. A claim that fails is refuted only by results in the claim's own setting; in any other it was not seen. Every claim
is judged twice, by the accuracy at the end of training, which decides, and by the best measurement of each run.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal, TypeVar

import pandas as pd

from recollect.analysis.groups import groups
from recollect.analysis.pooled import Pool, pool
from recollect.analysis.rates import at_best_rates, with_accuracy
from recollect.papers import estimates
from recollect.papers.estimates import Estimate, NotEnough, Undecided, seed_windows
from recollect.papers.questions import Finding

T = TypeVar("T")
Scale = Literal["tiny", "small", "medium", "paper"]
SCALES: tuple[Scale, ...] = ("tiny", "small", "medium", "paper")
Answer = Literal["holds", "does not hold"] | Undecided
_OPEN: tuple[Undecided, ...] = (
    "not seen at this scale",
    "needs more seeds",
    "best rate at the edge of the grid",
    "needs longer training",
    "runs are missing",
)
ANSWERS: tuple[Answer, ...] = ("does not hold", *_OPEN, "holds")
"""In the order of reports: what did not hold comes first."""
STRENGTH: tuple[Answer, ...] = ("does not hold", "holds", *_OPEN)
"""Of several answers on one claim, from different items or scales, the first of these counts."""
MISSING = 0.05
"""The share of a model's runs that may be missing (failed, say) before a claim about it is left undecided."""


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
    specified: pd.DataFrame = field(default_factory=pd.DataFrame)
    """One row per run that the item has at this scale, ended or not: its specification, and `model`, the title."""
    curves: pd.DataFrame = field(default_factory=pd.DataFrame)
    """One row per run and measurement, where the item needs curves."""
    slices: pd.DataFrame = field(default_factory=pd.DataFrame)
    """One row per run, measurement, tag and value, where the item needs slices."""
    snapshots: pd.DataFrame = field(default_factory=pd.DataFrame)
    """One row per run and snapshot of its embeddings, where the item needs them."""
    measured: pd.DataFrame = field(default_factory=pd.DataFrame)
    """What the item measured on trained models, if it does."""

    def where(self, **values: Any) -> pd.DataFrame:
        """The runs with these values: `model` is the model's title; `width`, `pairs`, `lr` .. any field by its last name.
        NotEnough where too many of them are missing; it does not matter whether other runs of the item are."""
        rows = where(self.runs, **values)
        if self.specified.empty:
            return self.whole(rows)
        specified = self.specified
        for name, value in values.items():
            if columns := _columns(specified, name):
                specified = specified.loc[specified[columns[0]] == value]
        if len(rows) < (1 - MISSING) * len(specified):
            raise NotEnough(f"{len(rows)} of {len(specified)} runs of {_words(values)} have ended")
        return rows

    def whole(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The same rows, or NotEnough where too many runs of their models are missing."""
        titles = set(rows["model"]) if self.asked_of and "model" in rows else {""}
        for title in sorted(titles & self._missing.keys()):
            ended, asked = self._missing[title]
            raise NotEnough(f"{ended} of {asked} runs {f'of {title} ' if title else ''}have ended")
        return rows

    @cached_property
    def _missing(self) -> dict[str, tuple[int, int]]:
        """By title of a model with too few runs, how many have ended and how many there should be; "" means all models."""
        ended = Counter(self.runs["model"]) if len(self.runs) and self.asked_of else Counter()
        counts = {title: (ended[title], asked) for title, asked in self.asked_of.items()}
        counts = counts or {"": (len(self.runs), self.asked)}
        return {title: pair for title, pair in counts.items() if pair[0] < (1 - MISSING) * pair[1]}

    @property
    def seeds(self) -> int:
        """How many seeds there are."""
        return len(set(self.runs["train.seed"])) if len(self.runs) else 0

    def once(self, name: str, make: "Callable[[Evidence], T]") -> T:
        """The result of `make` for this evidence, computed once and shared by the claims of an item."""
        if name not in self._made:
            self._made[name] = make(self)
        return self._made[name]

    @cached_property
    def _made(self) -> dict[str, Any]:
        return {}

    def best(self, runs: pd.DataFrame, name: str, rates: Iterable[float] | None = None) -> Estimate:
        """`estimates.best` with a variance estimated from all configurations at their best rates."""
        return estimates.best(runs, name, rates, self._accuracies)

    def window(self, runs: pd.DataFrame, name: str) -> Estimate:
        """`estimates.window_of` with the variance that the windows of all configurations share."""
        return estimates.window_of(runs, name, pooled=self._windows)

    @cached_property
    def _configurations(self) -> list[str]:
        """The fields in which runs differ, other than rate and seed."""
        fields = [name for name in self.runs if name.startswith(("task.", "model.", "train."))]
        varying = [name for name in fields if len(self.runs[name].unique()) > 1]
        return ["model", *(name for name in varying if name not in ("train.lr", "train.seed"))]

    @cached_property
    def _accuracies(self) -> list[list[float]]:
        """The accuracies over seeds of each configuration at its best rate."""
        best_runs = at_best_rates(with_accuracy(self.runs), self._configurations)
        return [list(rows["accuracy"]) for _, rows in groups(best_runs, self._configurations)]

    @cached_property
    def _windows(self) -> Pool | None:
        configurations = groups(self.runs, self._configurations)
        return pool([one.decades for one in seed_windows(rows)] for _, rows in configurations)

    @cached_property
    def at_best_epoch(self) -> "Evidence | None":
        """The same with the best accuracy that each run had at any measurement; None where none is recorded."""
        if "best_accuracy" not in self.runs or all(self.runs["best_accuracy"].isna()):
            return None
        higher = self.runs[["accuracy", "best_accuracy"]].max(axis=1)
        runs = self.runs.drop(columns="final.valid", errors="ignore").assign(accuracy=higher)
        return dataclasses.replace(self, runs=runs)


Test = Callable[[Evidence], Finding]
DecidedAt = tuple[Scale, ...] | Callable[[Evidence], bool]


@dataclass(frozen=True)
class Claim:
    """A sentence that results can support or refute. The same claim, as one object, may be in several items of a paper."""

    name: str
    """Unique within a paper."""
    says: str
    """What is tested, in words, thresholds included."""
    test: Test
    decided_at: DecidedAt = ("paper",)
    """Where the claim can be refuted: the scales that have the setting it names, or whether the runs have that setting."""
    by_best_epoch: bool = True
    """Whether it is judged by the best epoch as well."""

    def refutable(self, evidence: Evidence) -> bool:
        """Whether these results can refute it."""
        if isinstance(self.decided_at, tuple):
            return evidence.scale in self.decided_at
        return bool(len(evidence.runs)) and self.decided_at(evidence)


def claim(name: str, decided_at: DecidedAt = ("paper",)) -> Callable[[Test], Claim]:
    """A decorator that makes a claim of a test: its sentence is the test's docstring, in which `{THRESHOLD}` stands for the
    constant of that name where the test is written."""
    return lambda test: Claim(name, _sentence(test), test, decided_at)


def claims(
    name: str, of: Iterable[str], decided_at: DecidedAt | Mapping[str, DecidedAt] = ("paper",)
) -> Callable[[Callable[[str, Evidence], Finding]], tuple[Claim, ...]]:
    """A decorator that makes one claim about each of several things of a test that takes the thing first. `{name}` in the claim's
    name and sentence is the thing, `{title}` the same in capitals, and `{words}`, where `of` is a mapping, what that has for it.
    Each may be decided somewhere else."""
    words = of if isinstance(of, Mapping) else {}
    where = decided_at if isinstance(decided_at, Mapping) else dict.fromkeys(of, decided_at)
    return lambda test: tuple(
        Claim(name.format(name=thing), _sentence(test, thing, words.get(thing)), partial(test, thing), where[thing])
        for thing in of
    )


def _sentence(test: Callable[..., Finding], name: str = "", words: Any = None) -> str:
    names = {**test.__globals__, "name": name, "title": name.upper(), "words": words}
    return " ".join((test.__doc__ or "").format_map(names).split())


@dataclass(frozen=True)
class Verdict:
    """The result of judging a claim at one scale."""

    claim: str
    says: str
    answer: Answer
    """By the accuracy at the end of training."""
    best_epoch: Answer | None
    """By the best measurement of each run; None where the claim does not depend on it or no measurement is stored."""
    numbers: dict[str, str]
    note: str
    scale: Scale
    runs: int
    asked: int
    seeds: int


def judge(claim: Claim, evidence: Evidence) -> Verdict:
    """The verdict of the evidence on a claim."""
    answer, finding = _judged(claim, evidence)
    numbers, notes, by_best = dict(finding.numbers), [finding.note], None
    if claim.by_best_epoch and (best := evidence.at_best_epoch) is not None:
        other, otherwise = _judged(claim, best)
        changed = {name: text for name, text in otherwise.numbers.items() if numbers.get(name) != text}
        if changed or other != answer:
            by_best = other
        numbers |= {name: f"{numbers[name]}; best epoch {text}" if name in numbers else f"best epoch {text}"
                    for name, text in changed.items()}  # fmt: skip
        notes.append(f"the final epoch decides; by the best epoch: {other}" if other != answer else "")
    return Verdict(
        claim.name, claim.says, answer, by_best, numbers, "; ".join(filter(None, notes)), evidence.scale, len(evidence.runs),
        evidence.asked, evidence.seeds,
    )  # fmt: skip


def _judged(claim: Claim, evidence: Evidence) -> tuple[Answer, Finding]:
    try:
        if evidence.asked and evidence.runs.empty:
            raise NotEnough(f"0 of {evidence.asked} runs have ended")
        finding = claim.test(evidence)
    except NotEnough as missing:
        finding = Finding(None, note=str(missing), needs=missing.answer)
    if finding.holds is None:
        return finding.needs, finding
    if finding.holds:
        return "holds", finding
    return ("does not hold" if claim.refutable(evidence) else "not seen at this scale"), finding


def where(frame: pd.DataFrame, **values: Any) -> pd.DataFrame:
    """The rows with these values, by column or by the last word of a column's name; at least one, or NotEnough."""
    for name, value in values.items():
        if not (columns := _columns(frame, name)):
            raise NotEnough(f"no run has {name} {value}")
        frame = frame.loc[frame[columns[0]] == value]
    if frame.empty:
        raise NotEnough(f"no run of {_words(values)} has ended")
    return frame


def _columns(frame: pd.DataFrame, name: str) -> list[str]:
    return [c for c in frame if c == name] or [c for c in frame if str(c).rpartition(".")[2] == name]


def _words(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def one_per_claim(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """One verdict for each claim of each paper: where items or scales answer it several times, the strongest answer.

    `records` are verdicts as plain data with their `paper`; the first of equally strong ones counts.
    """
    strongest: dict[tuple[str, str], dict[str, Any]] = {}
    order = {answer: rank for rank, answer in enumerate(STRENGTH)}
    for record in records:
        key = record["paper"], record["claim"]
        if key not in strongest or order.get(record["answer"], 99) < order.get(strongest[key]["answer"], 99):
            strongest[key] = record
    return list(strongest.values())
