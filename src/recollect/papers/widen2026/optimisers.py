"""Do another optimiser, or slower rates for the parameters of the state-space model, widen the window?"""

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from recollect.papers.item import Item
from recollect.papers.judge import Claim, Evidence, Scale
from recollect.papers.questions import Finding
from recollect.papers.widen2026.settings import DIFFERS, OWN, WIDER, WRITTEN, Ways, model, rates, study, wider
from recollect.study.spec import Study

MIXERS = ("attention", "mamba", "mamba2", "deltanet")
OTHERS = ("muon", "lion", "schedule_free")
"""Optimisers that share AdamW's grid of rates; gradient descent has one 100 times as high."""
SLOW = "*.A_log|*.D|*.dt_proj.*"
"""Mamba's decay, skip and step size."""
FACTORS = (1.0, 0.3, 0.1, 0.03)


def optimiser_studies(scale: Scale) -> list[Study]:
    """Five optimisers, four mixers."""
    others = [{"optimiser": name} | ({"schedule": "constant"} if name == "schedule_free" else {}) for name in OTHERS]
    descent = {"optimiser": "sgd", "lr": [100 * rate for rate in rates(scale)]}
    return [study("optimisers", scale, [model(mixer, scale) for mixer in MIXERS], {}, *others, descent)]


def _by_optimiser(mixer: str, optimiser: str, evidence: Evidence) -> Finding:
    return wider(evidence, mixer, {"optimiser": optimiser}, {"optimiser": "adamw"})


BY_OPTIMISER = Ways("Optimisers", lambda runs, scale: list(runs["train.optimiser"]), "adamw")
OPTIMISERS = Item(
    "optimisers",
    "Optimisers",
    "the windows of four mixers under AdamW, Muon, Lion, schedule-free AdamW and gradient descent",
    BY_OPTIMISER.draw,
    optimiser_studies,
    tuple(
        Claim(
            f"{optimiser}-widens-{mixer}",
            f"Trained by {optimiser}, {WRITTEN[mixer]}'s window is at least {WIDER} decades wider than by adamw",
            partial(_by_optimiser, mixer, optimiser),
            OWN,
        )
        for mixer in MIXERS
        for optimiser in OTHERS
    ),
    DIFFERS,
)


def group_studies(scale: Scale) -> list[Study]:
    """Mamba with slower rates for its decay, skip and step size, by AdamW and Muon."""
    slow = {"groups": {SLOW: {"lr": list(FACTORS)}}}
    return [study("groups", scale, [model("mamba", scale)], slow, {**slow, "optimiser": "muon"})]


def _factors(runs: pd.DataFrame) -> list[float]:
    """The factor of each run's slower group."""
    groups: list[dict[str, Any]] = [json.loads(text) for text in runs["train.groups"]]
    return [next(iter(group.values()))["lr"] for group in groups]


def _slower(optimiser: str, evidence: Evidence) -> Finding:
    runs = evidence.runs
    known = replace(evidence, runs=runs.assign(factor=_factors(runs)) if len(runs) else runs)
    return wider(known, "mamba", {"optimiser": optimiser, "factor": 0.1}, {"optimiser": optimiser, "factor": 1.0})


BY_FACTOR = Ways(
    "Mamba: factor of the rate of A_log, D and dt",
    lambda runs, scale: [f"factor {factor:g}" for factor in _factors(runs)],
    "factor 1",
    "train.optimiser",
)
GROUPS = Item(
    "groups",
    "Slower rates for Mamba's decay, skip and step size",
    "Mamba's window where A_log, D and the projection of dt have 1, 0.3, 0.1 and 0.03 of the rate",
    BY_FACTOR.draw,
    group_studies,
    tuple(
        Claim(
            f"slower-{optimiser}",
            f"With a tenth of the rate for A_log, D and dt, Mamba's window under {optimiser} is at least {WIDER} decades wider",
            partial(_slower, optimiser),
            OWN,
        )
        for optimiser in ("adamw", "muon")
    ),
    DIFFERS,
)
