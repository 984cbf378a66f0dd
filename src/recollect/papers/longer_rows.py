"""Accuracy on rows longer than the trained ones: the first of a run's further tests, as the accuracy that items judge."""

from dataclasses import replace

import pandas as pd

from recollect.papers.estimates import Estimate
from recollect.papers.judge import Evidence

LONGER = "final.tests.0.accuracy"


def on_longer_rows(evidence: Evidence) -> Evidence:
    """The same evidence, the accuracy being that on longer rows, at the end of training. What rests on validation rows of the
    trained length is left out, so that the best rate is the one that is best on longer rows, for every model alike."""
    if LONGER not in evidence.runs:
        return evidence
    runs = evidence.runs.drop(columns=["final.valid", "best_accuracy", "best_step"], errors="ignore")
    return replace(evidence, runs=runs.assign(accuracy=runs[LONGER]))


def best_of_rates(evidence: Evidence, runs: pd.DataFrame, name: str) -> Estimate:
    """The mean over seeds at the best of the rates tried, taken as final: what does not extrapolate by the end of training is
    not left open."""
    return evidence.best(runs, name, rates=set(runs["train.lr"]))
