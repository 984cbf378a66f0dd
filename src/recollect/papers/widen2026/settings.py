"""The settings of our study of what widens the window, and how windows are compared.

The base, at `medium`: MQAR (64, 4) with 8,192 words and blank filler, width 64, 2 layers, 25 epochs of 100,000 rows in batches of
512, 10 rates from 3.2e-5 to 1, 3 seeds, bfloat16; every other scale but `tiny` is the same. `tiny` has 16 tokens, 4 pairs and 32
words, width 32, 2,000 steps of 32 fresh rows, 7 rates from 1e-4 to 1e-1 and 2 seeds: two CPU cores.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pandas as pd

from recollect.analysis.groups import groups
from recollect.analysis.window import THRESHOLD, windows
from recollect.figures.panels import lines_figure, mean_and_range
from recollect.papers.estimates import window_of
from recollect.papers.item import Drawing, Item
from recollect.papers.judge import Claim, Evidence, Scale, claims
from recollect.papers.questions import Finding, exceeds
from recollect.study.grid import axis
from recollect.study.spec import Study

NAME = "widen2026"
WRITTEN = {"attention": "attention", "mamba": "Mamba", "mamba2": "Mamba-2", "deltanet": "DeltaNet"}
"""Mixers as sentences have them."""
BOTH = ("attention", "mamba")
"""The mixers of most items."""
WIDER = 0.25
"""The least decades by which a window must be wider: half the step of the grid."""
TINY = (
    "MQAR with 16 tokens, 4 pairs and 32 words, blank filler; width 32, 2 layers, 2,000 steps of 32 fresh rows, 7 rates, 2 "
    "seeds, head not tied, attention with rotary positions."
)
FULL = "MQAR (64, 4), 8,192 words, blank filler, width 64, 2 layers, 25 epochs, batch 512, 10 rates, 3 seeds, bfloat16."
DIFFERS: dict[Scale, str] = {"tiny": TINY, "medium": FULL}


def rates(scale: Scale, factor: float = 1.0) -> list[float]:
    """The learning rates tried, times a factor. Nothing solves below 1e-4 at `medium`, and some windows go on beyond 0.1."""
    low, high, number = (1e-4, 1e-1, 7) if scale == "tiny" else (10**-4.5, 1.0, 10)
    return axis("logspace", factor * low, factor * high, number)


def model(mixer: str, scale: Scale, **fields: Any) -> dict[str, Any]:
    """The fields of a model at a scale."""
    small: dict[str, Any] = {"width": 32, "tie": False} if scale == "tiny" else {"width": 64}
    if scale == "tiny" and mixer == "attention":
        small["positions"] = "rotary"
    return {"mixer": mixer, "layers": 2, **small, **fields}


def study(name: str, scale: Scale, models: Sequence[Mapping[str, Any]], *trains: Mapping[str, Any]) -> Study:
    """A grid of these models over rates and seeds; `trains`: the fields that differ from the base, each a part of the grid."""
    if scale == "tiny":
        task: dict[str, Any] = {"kind": "mqar", "length": 16, "pairs": 4, "vocab": 32, "filler": "blank"}
        how: dict[str, Any] = {"steps": 2000, "batch": 32, "eval_every": 50, "eval_rows": 256, "test_rows": 1024}
    else:
        task = {"kind": "mqar", "length": 64, "pairs": 4, "filler": "blank"}
        how = {"protocol": "okpekpe2025", "epochs": 25, "precision": "bfloat16"}
    base = {"lr": rates(scale), "seed": [42, 123] if scale == "tiny" else [42, 123, 777], **how}
    parts = [base | dict(train) for train in trains or [{}]]
    return Study(name=f"{NAME}.{name}.{scale}", task=task, model=list(models), train=parts)


def wider(evidence: Evidence, mixer: str, more: Mapping[str, Any], less: Mapping[str, Any]) -> Finding:
    """Whether one way of training gives a mixer a window wider by WIDER than another."""
    wide, narrow = (
        evidence.window(evidence.where(model=mixer, **way), f"{mixer}, {_words(way)}: decades") for way in (more, less)
    )
    return exceeds(wide, narrow, by=WIDER)


def _words(way: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.rpartition('.')[2]} {value}" for name, value in way.items())


each = partial(claims, of={mixer: WRITTEN[mixer] for mixer in BOTH}, decided_at=("medium",))
"""Makes a claim about each mixer of a test; `{words}` in its sentence is the mixer."""


@dataclass(frozen=True)
class Ways:
    """The ways of training that an item compares."""

    title: str
    label: Callable[[pd.DataFrame, Scale], list[str]]
    """The way of each run."""
    base: str
    """The way that the others are compared with; empty: none."""
    panel: str = "model"
    """The column with a panel per value."""

    def named(self, evidence: Evidence) -> pd.DataFrame:
        """The runs with their way."""
        runs = evidence.runs
        return runs.assign(way=self.label(runs, evidence.scale)) if len(runs) else runs

    def draw(self, evidence: Evidence, caption: str) -> Drawing:
        """Accuracy against learning rate, a line per way."""
        table = mean_and_range(self.named(evidence), [self.panel, "way", "train.lr"])
        figure = lines_figure(
            table, "train.lr", "way", self.panel, title=self.title, xlabel="learning rate", columns=2,
            caption=f"{caption} Band: lowest to highest seed; grey: {THRESHOLD:g}, from which on a rate is in the window.",
        )  # fmt: skip
        for axes in figure.axes:
            axes.axhline(THRESHOLD, color="#999999", linewidth=0.8, zorder=0)
        return figure, table

    def item(
        self, name: str, shows: str, studies: Callable[[Scale], list[Study]], claims: tuple[Claim, ...], **fields: Any
    ) -> Item:
        """The item that draws these ways; `fields` override its others."""
        return replace(Item(name, self.title, shows, self.draw, studies, claims, DIFFERS), **fields)

    def windows(self, evidence: Evidence) -> pd.DataFrame:
        """One row per panel and way: `mean`, `low`, `high` of the seeds' windows in decades (90 % interval) and whether one goes
        on beyond the rates tried; `checkpoints`, the same of the best checkpoints; the best rate, the accuracy there, and what a
        badly chosen rate costs of it (`sensitivity`)."""
        rows = []
        for names, runs in groups(self.named(evidence), [self.panel, "way"]) if len(evidence.runs) else []:
            found = evidence.window(runs, "")
            best = runs.assign(accuracy=runs[["accuracy", "best_accuracy"]].max(axis=1))
            row = windows(runs.assign(all=""), by="all", resamples=1).iloc[0]
            rows.append(
                {"panel": names[self.panel], "way": names["way"], "mean": found.value, "low": found.low, "high": found.high,
                 "open": found.could_rise, "checkpoints": window_of(best, "").value, "rate": row["best_lr"],
                 "accuracy": row["best"], "sensitivity": row["sensitivity"], "seeds": found.seeds}
            )  # fmt: skip
        return pd.DataFrame(rows)
