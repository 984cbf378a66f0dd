"""The runs of Retrievit as its items look at them: each model under its short name, at its best learning rate."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from recollect.analysis.pooled import pool
from recollect.analysis.rates import at_best_rates, mean_accuracy
from recollect.analysis.window import THRESHOLD
from recollect.papers.estimates import Estimate, NotEnough, mean_of
from recollect.papers.judge import Evidence, Scale, Test, where
from recollect.papers.questions import Finding, every
from recollect.papers.retrievit2026.settings import TITLES, Fields, Models, TaskName, at_scale, study

HALF = 0.5
"""The accuracy in position retrieval from which a model counts as having learnt it."""
VARIANT = ("task.query", "model.tie", "model.residual")
"""Columns in which runs of one model may differ, other than rate and seed."""


@cache
def names(scale: Scale) -> dict[str, str]:
    """The short name of every run of the paper, by its id."""
    variants: list[tuple[TaskName, Fields]] = [
        ("suffix", {}), ("prefix", {}), ("suffix-99", {}), ("prefix-99", {}), ("position", {}),
        ("position", {"tie": True}), ("position", {"tie": False}),
        ("suffix", {"residual": "released"}), ("suffix-99", {"residual": "released"}),
    ]  # fmt: skip
    return {
        run.id: name for name in TITLES for task, fields in variants for run in study("all", scale, task, [name], **fields).runs()
    }  # fmt: skip


def view(evidence: Evidence) -> pd.DataFrame:
    """The runs with their short `name`, in the order of the legends, each model at its best learning rate only.

    That is the rate at which most seeds reach the accuracy that ends a run, and among those the one that needs the fewest steps;
    if none reaches it, the most accurate one.
    """
    return evidence.once("view", _view)


def _view(evidence: Evidence) -> pd.DataFrame:
    known = names(evidence.scale)
    frame = evidence.runs.assign(name=[known[run] for run in evidence.runs["id"]])
    order = {name: place for place, name in enumerate(TITLES)}
    frame = frame.sort_values("name", key=lambda column: column.map(order), kind="stable", ignore_index=True)
    variants = ["name", *(column for column in VARIANT if column in frame)]
    return at_best_rates(frame, variants, rank=_rank).reset_index(drop=True)


def _rank(runs: pd.DataFrame) -> tuple[float, float]:
    """The rank of a learning rate: the lower the better."""
    solved = float(np.mean(runs["status"].to_numpy() == "solved"))
    return -solved, float(np.mean(runs["step"].to_numpy(float))) if solved else -mean_accuracy(runs)


def learnt(runs: pd.DataFrame, name: str, least: float = THRESHOLD) -> pd.DataFrame:
    """The runs whose own accuracy is at least this, or NotEnough if there is none: runs that have not learnt the task are no
    evidence."""
    kept = runs.loc[runs["accuracy"].fillna(0.0) >= least]
    if kept.empty:
        highest = runs["accuracy"].fillna(0.0).max()
        raise NotEnough(
            f"no run of {name} has learnt the task (accuracy at most {highest:.2f})", "needs longer training"
        )
    return kept


def best_learnt(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs of one model that have learnt position retrieval, or all where none has; the most accurate first."""
    kept = runs.loc[runs["accuracy"].fillna(0.0) >= HALF]
    return (kept if len(kept) else runs).sort_values("accuracy", ascending=False, kind="stable")


def mean_over_seeds(evidence: Evidence, name: str, values: Callable[[str], Sequence[float]], label: str) -> Estimate:
    """The mean of one number per seed of a model, which `values` gives, with a variance that the item's models share; what a
    model lacks is left out of that."""

    def known(name: str) -> Sequence[float]:
        try:
            return values(name)
        except NotEnough:
            return ()

    return mean_of(values(name), label, pool(known(one) for one in dict.fromkeys(view(evidence)["name"])))


def rows_of(frame: pd.DataFrame, runs: Iterable[str]) -> pd.DataFrame:
    """The rows of curves, slices or snapshots that belong to these runs."""
    return frame.loc[frame["run"].isin(list(runs))] if len(frame) else frame


def of(evidence: Evidence, name: str, **values: Any) -> pd.DataFrame:
    """The runs of one model, at its best rate."""
    return evidence.whole(where(view(evidence), name=name, **values))


def each(models: Models, test: Callable[[Evidence, str], Finding]) -> Test:
    """Whether a test holds of each of these models."""
    return lambda evidence: every(at_scale(models, evidence.scale), lambda name: test(evidence, name))
