"""An item: one figure or table of a paper, with its studies at each scale, its drawing and its claims; and how most are drawn."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from recollect.analysis.rates import at_best_rate
from recollect.figures.panels import lines_figure
from recollect.figures.tables import table_figure
from recollect.papers.judge import SCALES, Claim, Evidence, Scale
from recollect.sources.base import Unknown
from recollect.spec import SpecError, nearest
from recollect.store import frames
from recollect.store.frames import flat
from recollect.store.store import Store
from recollect.study.run import Grid, expand
from recollect.study.spec import Study, distinct
from recollect.train.spec import RunSpec

Drawing = tuple[Figure, pd.DataFrame]
"""A picture, and the numbers that it shows."""
Draw = Callable[[Evidence, str], Drawing]
"""From evidence and a caption: the picture and its numbers. Must also draw where runs are missing."""
Numbers = Callable[[Evidence], pd.DataFrame]
"""What `lines` and `table` draw."""
Shown = Callable[[pd.DataFrame], pd.DataFrame]


@cache
def _grids(studies: Callable[[Scale], list[Study]], scale: Scale) -> tuple[Grid, ...]:
    """Expanding a large grid takes seconds, and items share studies."""
    return tuple(expand(studies(scale)))


@dataclass(frozen=True)
class Item:
    """One figure or table."""

    name: str
    """As in `reproduce PAPER/NAME`."""
    title: str
    shows: str
    """What it shows, in one sentence."""
    draw: Draw
    studies: Callable[[Scale], list[Study]] = lambda scale: []
    claims: tuple[Claim, ...] = ()
    differs: Mapping[Scale, str] = field(default_factory=dict)
    """How a scale differs from the paper; what the paper does not state, under `paper`."""
    needs: tuple[str, ...] = ()
    """Further frames that it is drawn and judged from: `curves`, `slices`, `snapshots`."""
    measure: Callable[[Evidence, list[RunSpec], str], pd.DataFrame] | None = None
    """Measures something on trained models that no run records, given the evidence so far, all of the item's runs and a
    device."""

    def grids(self, scale: Scale) -> tuple[Grid, ...]:
        """Its studies with their runs."""
        return _grids(self.studies, scale)

    def runs(self, scale: Scale) -> list[RunSpec]:
        """Every run of its studies, each once."""
        return distinct([grid.runs for grid in self.grids(scale)])

    def caption(self, evidence: Evidence) -> str:
        """The caption: scale, runs, seeds, and what differs from the paper."""
        if not evidence.asked:
            return "Drawn from the specification: nothing is trained."
        missing = f" of {evidence.asked}" if len(evidence.runs) < evidence.asked else ""
        runs = f"{len(evidence.runs)}{missing} runs{_seeds(evidence.runs)}"
        return f"Scale {evidence.scale}; {runs}. {self.differs.get(evidence.scale, '')}".strip()


def _seeds(runs: pd.DataFrame) -> str:
    """How many seeds each configuration was trained with: `, 3 to 5 seeds each`."""
    if runs.empty:
        return ""
    fields = [name for name in runs if name.startswith(("task.", "model", "train.")) and name != "train.seed"]
    counts = runs[fields].astype(str).value_counts(dropna=False)
    few, many = int(counts.min()), int(counts.max())
    return f", {few} seed{'s' * (many > 1)} each" if few == many else f", {few} to {many} seeds each"


@dataclass(frozen=True)
class Paper:
    """A paper and its items, in its order."""

    name: str
    title: str
    items: tuple[Item, ...]
    scales: tuple[Scale, ...] = SCALES
    """The scales that it has."""
    unknown: tuple[Unknown, ...] = ()
    """What it does not state."""
    minutes: Mapping[str, float] = field(default_factory=dict)
    """Minutes at scale `tiny` on two cores, of `all` items together and of single ones by name."""
    looks_at: Callable[[Evidence], Iterable[str]] | None = None
    """The runs whose curves, slices and snapshots its items are drawn and judged from, by id; None: all of them."""

    @property
    def claims(self) -> dict[str, Claim]:
        """Every claim by its name; one that is in several items is there once."""
        return {claim.name: claim for item in self.items for claim in item.claims}

    def item(self, name: str) -> Item:
        """The item of that name."""
        items = {item.name: item for item in self.items}
        if name not in items:
            raise SpecError(f"{self.name} has no item {name!r}: {nearest(name, items)}")
        return items[name]


FRAMES: dict[str, Callable[..., pd.DataFrame]] = {
    "runs": frames.runs_frame, "curves": frames.curves_frame, "slices": frames.slices_frame,
    "snapshots": frames.snapshots_frame,
}  # fmt: skip
"""The frames of evidence, and how each is read."""
_OUTCOMES = ("id", "status", "step", "accuracy", "parameters", "versions")


def gather(item: Item, scale: Scale, store: Store) -> Evidence:
    """The evidence on an item in the store, which must know its studies."""
    names = [grid.study.name for grid in item.grids(scale)]
    evidence = {which: frames.of_studies(FRAMES[which], store, names) for which in ("runs", *item.needs)}
    return evidence_of(item, scale, **evidence)


def evidence_of(item: Item, scale: Scale, **frames: pd.DataFrame) -> Evidence:
    """Evidence on an item from frames, with how many runs it has at the scale. Without a run, the frame of runs has its columns
    nevertheless, so that what counts and compares them need not ask."""
    runs = item.runs(scale)
    asked_of = Counter(run.model.title for run in runs)
    specified = pd.DataFrame([{"model": run.model.title} | flat(run.model_dump(mode="json")) for run in runs])
    if frames.get("runs", specified.head(0)).empty:
        frames["runs"] = pd.DataFrame(columns=[*_OUTCOMES, *specified])
    return Evidence(scale, asked=len(runs), asked_of=asked_of, specified=specified, **frames)


def best_lines(runs: pd.DataFrame, by: Sequence[str], rates: Iterable[float] | None = None) -> pd.DataFrame:
    """Accuracy at the best rate of each group, its `low` and `high` being those of single seeds: what `lines_figure` takes."""
    band = {"accuracy": "mean", "min": "low", "max": "high"}
    return at_best_rate(runs, by, rates).drop(columns=["low", "high"]).rename(columns=band)


def lines(
    numbers: Numbers, x: str, line: str, panel: str | None = None, *, shown: Shown = lambda table: table, **options: Any
) -> Draw:
    """Draws the numbers, as `shown` changes them, as lines in panels. `options` are those of `lines_figure`, and `note`, which is
    added to the caption; one that is a function is called with the evidence."""

    def draw(evidence: Evidence, caption: str) -> Drawing:
        table = numbers(evidence)
        settings: dict[str, Any] = {
            name: value(evidence) if callable(value) else value for name, value in options.items()
        }
        text = f"{caption} {settings.pop('note', '')}".strip()
        return lines_figure(shown(table), x, line, panel, caption=text, **settings), table

    return draw


_HEADINGS = {"lr": "learning rate", "min": "lowest seed", "max": "highest seed"}


def by_best_rate(frame: pd.DataFrame) -> pd.DataFrame:
    """What `at_best_rate` gives, as a table in a picture shows it: fields by their last names, and no second interval."""
    short = frame.drop(columns=["low", "high", "rates"], errors="ignore")
    return short.rename(columns=lambda name: _HEADINGS.get(name, name.rpartition(".")[2]))


def table(numbers: Numbers, title: str, note: str = "", shown: Shown = lambda table: table) -> Draw:
    """Draws the numbers, as `shown` changes them, as a table; `note` is added to the caption."""

    def draw(evidence: Evidence, caption: str) -> Drawing:
        frame = numbers(evidence)
        return table_figure(shown(frame), title, f"{caption} {note}".strip()), frame

    return draw
