"""Does muP keep the best learning rate where it is as a model grows wider?"""

import math

import numpy as np
import pandas as pd

from recollect.analysis.groups import groups
from recollect.analysis.window import windows
from recollect.papers.item import Item, lines
from recollect.papers.judge import Evidence, Scale, where
from recollect.papers.questions import Finding, not_
from recollect.papers.widen2026.settings import BOTH, DIFFERS, each, model, study
from recollect.study.spec import Study

STEP = 0.5
"""Decades between the rates tried: best rates this far apart or less are the same."""


def _widths(scale: Scale) -> list[int]:
    return [16, 32, 64] if scale == "tiny" else [32, 64, 128, 256]


def width_studies(scale: Scale) -> list[Study]:
    """Both parametrisations, over widths; muP from the narrowest."""
    widths = _widths(scale)
    how = {"width": widths, "parametrisation": ["standard", "mup"], "base_width": widths[0]}
    return [study("widths", scale, [model(mixer, scale, **how) for mixer in BOTH])]


def best_rates(runs: pd.DataFrame) -> pd.DataFrame:
    """The logarithm of the best rate of each model, parametrisation and width, with its interval over seeds."""
    rows = []
    for names, own in groups(runs, ["model", "model.parametrisation", "model.width"]):
        row = windows(own.assign(all=""), by="all").iloc[0]
        low, mean, high = np.log10([float(row[name]) for name in ("best_lr_low", "best_lr", "best_lr_high")])
        rows.append({**names, "mean": mean, "low": low, "high": high, "count": int(row["seeds"])})
    columns = ["model", "model.parametrisation", "model.width", "mean", "low", "high", "count"]
    return pd.DataFrame(rows, columns=columns)


def _moves(mixer: str, parametrisation: str, evidence: Evidence) -> tuple[float, float, dict[str, str]]:
    """The least and the most decades between the best rates of any two widths that the intervals allow."""
    table = best_rates(where(evidence.runs, model=mixer, **{"model.parametrisation": parametrisation}))
    numbers = {f"{mixer}, {parametrisation}, width {row['model.width']}: best rate":
               f"{10 ** row['mean']:.1e} ({10 ** row['low']:.1e} .. {10 ** row['high']:.1e})"
               for row in table.to_dict("records")}  # fmt: skip
    low, high = table["low"].to_numpy(float), table["high"].to_numpy(float)
    return max(0.0, float(low.max() - high.min())), float(high.max() - low.min()), numbers


def _stays(evidence: Evidence, mixer: str, parametrisation: str) -> Finding:
    least, most, numbers = _moves(mixer, parametrisation, evidence)
    if math.isnan(most):
        return Finding(None, numbers, "one seed gives no interval")
    return Finding(True if most <= STEP + 1e-6 else False if least > STEP + 1e-6 else None, numbers)


@each("mup-keeps-{name}")
def _mup_keeps(mixer: str, evidence: Evidence) -> Finding:
    """By muP {words}'s best rates at all widths lie within {STEP} decades"""
    return _stays(evidence, mixer, "mup")


@each("standard-moves-{name}")
def _standard_moves(mixer: str, evidence: Evidence) -> Finding:
    """By the standard parametrisation {words}'s best rates at two widths lie more than {STEP} decades apart"""
    return not_(_stays(evidence, mixer, "standard"))


WIDTHS = Item(
    "widths", "Best rate against width",
    "the best learning rate of models of several widths, by the standard parametrisation and by muP",
    lines(
        lambda evidence: best_rates(evidence.runs), "model.width", "model.parametrisation", "model",
        title="Best rate against width", note="Band: 95 % interval over seeds.", xlabel="width",
        ylabel="log10 of the best rate", ylim=None, columns=2,
    ),
    width_studies, (*_mup_keeps, *_standard_moves), DIFFERS,
)  # fmt: skip
