"""What may widen the window: another optimiser, slower rates for the parameters of the state-space model, clipping, weight decay,
warm-up, batch, schedule, longer training; and whether runs that solved fall back."""

import json
import math
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from recollect.analysis.window import windows
from recollect.papers.estimates import AT_EDGE, NotEnough
from recollect.papers.judge import Claim, Evidence, Scale, claims, where
from recollect.papers.questions import Finding
from recollect.papers.widen2026.settings import BOTH, DIFFERS, WIDER, WRITTEN, Ways, each, model, rates, study, wider
from recollect.study.spec import Study

MIXERS = ("attention", "mamba", "mamba2", "deltanet")
OPTIMISERS_TRIED = {"adamw": 1.0, "muon": 1.0, "lion": 0.1, "schedule_free": 1.0, "sgd": 100.0}
"""Optimisers, and their rates over AdamW's: a step of Lion moves a parameter by its whole rate, one of SGD by its gradient."""
OTHERS = ("muon", "lion", "schedule_free")
"""Those that claims compare with AdamW."""


def optimiser_studies(scale: Scale) -> list[Study]:
    """Five optimisers, four mixers."""
    constant = {"schedule_free": {"schedule": "constant"}}
    trains = [
        {"optimiser": name, "lr": rates(scale, factor), **constant.get(name, {})}
        for name, factor in OPTIMISERS_TRIED.items()
    ]
    return [study("optimisers", scale, [model(mixer, scale) for mixer in MIXERS], *trains)]


BY_OPTIMISER = Ways("Optimisers", lambda runs, scale: list(runs["train.optimiser"]), "adamw")
OPTIMISERS = BY_OPTIMISER.item(
    "optimisers",
    "the windows of four mixers under AdamW, Muon, Lion, schedule-free AdamW and gradient descent",
    optimiser_studies,
    tuple(
        Claim(
            f"{name}-widens-{mixer}",
            f"Trained by {name}, {WRITTEN[mixer]}'s window is at least {WIDER} decades wider than by adamw",
            partial(wider, mixer=mixer, more={"optimiser": name}, less={"optimiser": "adamw"}),
            ("medium",),
        )
        for mixer in MIXERS
        for name in OTHERS
    ),
)

SLOW = "*.A_log|*.D|*.dt_proj.*"
"""Mamba's decay, skip and step size."""


def group_studies(scale: Scale) -> list[Study]:
    """Mamba with slower rates for its decay, skip and step size, by AdamW and Muon."""
    slow = {"groups": {SLOW: {"lr": [1.0, 0.3, 0.1, 0.03]}}}
    return [study("groups", scale, [model("mamba", scale)], slow, {**slow, "optimiser": "muon"})]


def _factors(runs: pd.DataFrame) -> list[float]:
    """The factor of each run's slower group."""
    groups: list[dict[str, Any]] = [json.loads(text) for text in runs["train.groups"]]
    return [next(iter(group.values()))["lr"] for group in groups]


@claims("slower-{name}", ("adamw", "muon"), ("medium",))
def _slower(optimiser: str, evidence: Evidence) -> Finding:
    """With a tenth of the rate for A_log, D and dt, Mamba's window under {name} is at least {WIDER} decades wider"""
    known = replace(evidence, runs=evidence.runs.assign(factor=_factors(evidence.runs)))
    return wider(known, "mamba", {"optimiser": optimiser, "factor": 0.1}, {"optimiser": optimiser, "factor": 1.0})


BY_FACTOR = Ways(
    "Mamba: factor of the rate of A_log, D and dt",
    lambda runs, scale: [f"factor {factor:g}" for factor in _factors(runs)],
    "factor 1",
    "train.optimiser",
)
GROUPS = BY_FACTOR.item(
    "groups",
    "Mamba's window where A_log, D and the projection of dt have 1, 0.3, 0.1 and 0.03 of the rate",
    group_studies,
    _slower,
    title="Slower rates for Mamba's decay, skip and step size",
)


def clipping_studies(scale: Scale) -> list[Study]:
    """Clipping by weight decay: one cohort per mixer."""
    both = {"clip": [0.0, 1.0], "weight_decay": [0.0, 0.01, 0.1]}
    return [study("clipping", scale, [model(mixer, scale) for mixer in BOTH], both)]


UNCLIPPED = {"clip": 0.0, "weight_decay": 0.1}


@each("clipping-widens-{name}")
def _clipped(mixer: str, evidence: Evidence) -> Finding:
    """Clipping at 1 widens {words}'s window by at least {WIDER} decades"""
    return wider(evidence, mixer, {**UNCLIPPED, "clip": 1.0}, UNCLIPPED)


@each("no-decay-widens-{name}")
def _undecayed(mixer: str, evidence: Evidence) -> Finding:
    """Without weight decay {words}'s window is at least {WIDER} decades wider"""
    return wider(evidence, mixer, {**UNCLIPPED, "weight_decay": 0.0}, UNCLIPPED)


@each("falls-back-{name}")
def _falls_back(mixer: str, evidence: Evidence) -> Finding:
    """Without clipping, {words}'s window of best checkpoints is at least {WIDER} decades wider than that of the ends"""
    runs = evidence.where(model=mixer, **UNCLIPPED)
    if "best_accuracy" not in runs:
        raise NotEnough("no best checkpoints are known")
    ends = [runs.assign(accuracy=runs[name], measured=name) for name in ("accuracy", "best_accuracy")]
    both = Evidence(evidence.scale, pd.concat(ends, ignore_index=True), asked=2 * len(runs))
    return wider(both, mixer, {"measured": "best_accuracy"}, {"measured": "accuracy"})


def _clip_and_decay(runs: pd.DataFrame, scale: Scale) -> list[str]:
    pairs = zip(runs["train.clip"], runs["train.weight_decay"], strict=True)
    return [f"clip {clip:g}, decay {decay:g}" if clip else f"no clip, decay {decay:g}" for clip, decay in pairs]


BY_CLIPPING = Ways("Clipping and weight decay", _clip_and_decay, "no clip, decay 0.1")
CLIPPING = BY_CLIPPING.item(
    "clipping",
    "the windows with and without clipping at three weight decays, and whether runs that solved fall back",
    clipping_studies,
    (*_clipped, *_undecayed, *_falls_back),
)


def _batches(scale: Scale) -> list[int]:
    """Rows in a step; the second is the base."""
    return [8, 32, 128] if scale == "tiny" else [128, 512, 2048]


def _base(scale: Scale, **changed: Any) -> dict[str, Any]:
    return {"warmup": 0.1, "batch": _batches(scale)[1], "schedule": "cosine", **changed}


def factor_studies(scale: Scale) -> list[Study]:
    """Warm-up, batch and schedule, one at a time; the base is among each."""
    ways = ({"warmup": [0.0, 0.1, 0.3]}, {"batch": _batches(scale)}, {"schedule": "wsd"})
    return [study("factors", scale, [model(mixer, scale) for mixer in BOTH], *ways)]


def _changes(runs: pd.DataFrame, scale: Scale) -> list[str]:
    """In what each run differs from the base."""
    base = _base(scale)
    return [
        ", ".join(f"{name} {row[f'train.{name}']}" for name in base if row[f"train.{name}"] != base[name]) or "base"
        for row in runs.to_dict("records")
    ]


@each("warm-up-widens-{name}")
def _warmed_up(mixer: str, evidence: Evidence) -> Finding:
    """With warm-up over 0.3 of the run {words}'s window is at least {WIDER} decades wider than without"""
    return wider(evidence, mixer, _base(evidence.scale, warmup=0.3), _base(evidence.scale, warmup=0.0))


@each("small-batches-widen-{name}")
def _in_small_batches(mixer: str, evidence: Evidence) -> Finding:
    """With the smallest batch, and so the most steps, {words}'s window is at least {WIDER} decades wider than with the largest"""
    small, _, large = (_base(evidence.scale, batch=batch) for batch in _batches(evidence.scale))
    return wider(evidence, mixer, small, large)


@each("wsd-widens-{name}")
def _by_wsd(mixer: str, evidence: Evidence) -> Finding:
    """With wsd {words}'s window is at least {WIDER} decades wider than with cosine"""
    return wider(evidence, mixer, _base(evidence.scale, schedule="wsd"), _base(evidence.scale))


BY_CHANGE = Ways("Warm-up, batch and schedule", _changes, "base")
FACTORS = BY_CHANGE.item(
    "factors",
    "the windows with warm-up over 0, 0.1 and 0.3 of the run, with small and large batches, and with wsd for cosine",
    factor_studies,
    (*_warmed_up, *_in_small_batches, *_by_wsd),
)


def _lengths(scale: Scale) -> tuple[str, list[int]]:
    """The field that says how long training lasts, and its values."""
    return ("train.steps", [500, 1000, 2000, 4000]) if scale == "tiny" else ("train.epochs", [6, 12, 25, 50])


def length_studies(scale: Scale) -> list[Study]:
    """Four lengths of training."""
    name, values = _lengths(scale)
    return [study("lengths", scale, [model(mixer, scale) for mixer in BOTH], {name.removeprefix("train."): values})]


@each("longer-widens-{name}")
def _longer(mixer: str, evidence: Evidence) -> Finding:
    """8 times the steps widen {words}'s window by at least {WIDER} decades"""
    name, values = _lengths(evidence.scale)
    return wider(evidence, mixer, {name: values[-1]}, {name: values[0]})


@each("edge-follows-steps-{name}")
def _lower_edge(mixer: str, evidence: Evidence) -> Finding:
    """The lower edge of {words}'s window falls by as many decades as steps grow, within {WIDER}"""
    name, values = _lengths(evidence.scale)
    edges, beyond = [], False
    for value in (values[0], values[-1]):
        runs = where(evidence.runs, model=mixer, **{name: value})
        found = windows(runs, by="train.seed", resamples=1).set_index("train.seed")
        open_ = found["open_low"].astype(bool)  # an open window has no edge
        edges.append(found["low"].where(~open_))
        beyond = beyond or bool(open_.to_numpy().any())
    falls = [math.log10(start / end) for start, end in zip(*edges, strict=True) if start == start and end == end]
    grown = math.log10(values[-1] / values[0])
    numbers = {f"{mixer}: decades by which the lower edge falls": ", ".join(f"{fall:.2f}" for fall in falls) or "unknown",
               "decades by which steps grow": f"{grown:.2f}"}  # fmt: skip
    if len(falls) < 2:
        note = "fewer than two seeds have a lower edge at both lengths"
        return Finding(None, numbers, note, AT_EDGE if beyond else "needs longer training")
    near = [abs(fall - grown) <= WIDER for fall in falls]
    return Finding(True if all(near) else None if any(near) else False, numbers)


def _by_length(runs: pd.DataFrame, scale: Scale) -> list[str]:
    name, _ = _lengths(scale)
    return [f"{length:,} {name.removeprefix('train.')}" for length in runs[name]]


BY_LENGTH = Ways("Longer training", _by_length, "")
LENGTHS = BY_LENGTH.item(
    "lengths",
    "the windows after four lengths of training, and whether their lower edge follows rate x steps = const",
    length_studies,
    (*_longer, *_lower_edge),
    differs={
        "tiny": DIFFERS["tiny"].replace("2,000 steps", "500 to 4,000 steps"),
        "medium": DIFFERS["medium"].replace("25 epochs", "6 to 50 epochs"),
    },
)
