"""Do clipping, weight decay, warm-up, batch, schedule or longer training widen the window, and do runs that solved fall back?"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd

from recollect.analysis.window import windows
from recollect.papers.estimates import AT_EDGE, NotEnough
from recollect.papers.item import Item
from recollect.papers.judge import Claim, Evidence, Scale, where
from recollect.papers.questions import Finding
from recollect.papers.widen2026.settings import DIFFERS, OWN, WIDER, WRITTEN, Ways, model, study, wider
from recollect.study.spec import Study

MIXERS = ("attention", "mamba")


def _each(name: str, says: str, test: Callable[[str, Evidence], Finding]) -> tuple[Claim, ...]:
    """A claim about each mixer; `{mixer}` in `says` is its name."""
    return tuple(
        Claim(f"{name}-{mixer}", says.format(mixer=WRITTEN[mixer]), partial(test, mixer), OWN) for mixer in MIXERS
    )


def clipping_studies(scale: Scale) -> list[Study]:
    """Clipping by weight decay: one cohort per mixer."""
    both = {"clip": [0.0, 1.0], "weight_decay": [0.0, 0.01, 0.1]}
    return [study("clipping", scale, [model(mixer, scale) for mixer in MIXERS], both)]


def _clipped(mixer: str, evidence: Evidence) -> Finding:
    return wider(evidence, mixer, {"clip": 1.0, "weight_decay": 0.1}, {"clip": 0.0, "weight_decay": 0.1})


def _undecayed(mixer: str, evidence: Evidence) -> Finding:
    return wider(evidence, mixer, {"clip": 0.0, "weight_decay": 0.0}, {"clip": 0.0, "weight_decay": 0.1})


def _falls_back(mixer: str, evidence: Evidence) -> Finding:
    runs = evidence.where(model=mixer, clip=0.0, weight_decay=0.1)
    if "best_accuracy" not in runs:
        raise NotEnough("no best checkpoints are known")
    ends = [runs.assign(accuracy=runs[name], measured=name) for name in ("accuracy", "best_accuracy")]
    both = Evidence(evidence.scale, pd.concat(ends, ignore_index=True), asked=2 * len(runs))
    return wider(both, mixer, {"measured": "best_accuracy"}, {"measured": "accuracy"})


def _clip_and_decay(runs: pd.DataFrame, scale: Scale) -> list[str]:
    pairs = zip(runs["train.clip"], runs["train.weight_decay"], strict=True)
    return [f"clip {clip:g}, decay {decay:g}" if clip else f"no clip, decay {decay:g}" for clip, decay in pairs]


BY_CLIPPING = Ways("Clipping and weight decay", _clip_and_decay, "no clip, decay 0.1")
CLIPPING = Item(
    "clipping",
    "Clipping and weight decay",
    "the windows with and without clipping at three weight decays, and whether runs that solved fall back",
    BY_CLIPPING.draw,
    clipping_studies,
    (
        *_each("clipping-widens", f"Clipping at 1 widens {{mixer}}'s window by at least {WIDER} decades", _clipped),
        *_each(
            "no-decay-widens", f"Without weight decay {{mixer}}'s window is at least {WIDER} decades wider", _undecayed
        ),
        *_each(
            "falls-back",
            f"Without clipping, {{mixer}}'s window of best checkpoints is at least {WIDER} decades wider than that of the ends",
            _falls_back,
        ),
    ),
    DIFFERS,
)

WARMUPS, BATCHES = (0.0, 0.1, 0.3), {"tiny": (8, 32, 128)}
"""Shares of the run; rows in a step."""


def factor_studies(scale: Scale) -> list[Study]:
    """Warm-up, batch and schedule, one at a time; the base is among each."""
    batches = BATCHES.get(scale, (128, 512, 2048))
    ways = ({"warmup": list(WARMUPS)}, {"batch": list(batches)}, {"schedule": "wsd"})
    return [study("factors", scale, [model(mixer, scale) for mixer in MIXERS], *ways)]


def _base(scale: Scale) -> dict[str, Any]:
    return {"warmup": 0.1, "batch": BATCHES.get(scale, (128, 512, 2048))[1], "schedule": "cosine"}


def _changed(name: str, more: Any, less: Any, mixer: str, evidence: Evidence) -> Finding:
    base = _base(evidence.scale)
    ends = [base | {name: value(evidence.scale) if callable(value) else value} for value in (more, less)]
    return wider(evidence, mixer, *ends)


def _changes(runs: pd.DataFrame, scale: Scale) -> list[str]:
    """In what each run differs from the base."""
    base = _base(scale)
    return [
        ", ".join(f"{name} {row[f'train.{name}']}" for name in base if row[f"train.{name}"] != base[name]) or "base"
        for row in runs.to_dict("records")
    ]


BY_CHANGE = Ways("Warm-up, batch and schedule", _changes, "base")
FACTORS = Item(
    "factors",
    "Warm-up, batch and schedule",
    "the windows with warm-up over 0, 0.1 and 0.3 of the run, with small and large batches, and with wsd for cosine",
    BY_CHANGE.draw,
    factor_studies,
    (
        *_each(
            "warm-up-widens",
            f"With warm-up over 0.3 of the run {{mixer}}'s window is at least {WIDER} decades wider than without",
            partial(_changed, "warmup", 0.3, 0.0),
        ),
        *_each(
            "small-batches-widen",
            f"With the smallest batch, and so the most steps, {{mixer}}'s window is at least {WIDER} decades wider than with the "
            "largest",
            partial(_changed, "batch", lambda s: BATCHES.get(s, (128,))[0], lambda s: BATCHES.get(s, (2048,))[-1]),
        ),
        *_each(
            "wsd-widens",
            f"With wsd {{mixer}}'s window is at least {WIDER} decades wider than with cosine",
            partial(_changed, "schedule", "wsd", "cosine"),
        ),
    ),
    DIFFERS,
)


def _lengths(scale: Scale) -> tuple[str, list[int]]:
    """The field that says how long training lasts, and its values."""
    return ("steps", [500, 1000, 2000, 4000]) if scale == "tiny" else ("epochs", [6, 12, 25, 50])


def length_studies(scale: Scale) -> list[Study]:
    """Four lengths of training."""
    name, values = _lengths(scale)
    return [study("lengths", scale, [model(mixer, scale) for mixer in MIXERS], {name: values})]


def _longer(mixer: str, evidence: Evidence) -> Finding:
    name, values = _lengths(evidence.scale)
    return wider(evidence, mixer, {f"train.{name}": values[-1]}, {f"train.{name}": values[0]})


def _lower_edge(mixer: str, evidence: Evidence) -> Finding:
    """By how many decades each seed's lower edge falls, beside those by which the steps grow."""
    name, values = _lengths(evidence.scale)
    edges, beyond = [], False
    for value in (values[0], values[-1]):
        runs = where(evidence.runs, model=mixer, **{f"train.{name}": value})
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
    return [f"{length:,} {name}" for length in runs[f"train.{name}"]]


BY_LENGTH = Ways("Longer training", _by_length, "")
LENGTHS = Item(
    "lengths",
    "Longer training",
    "the windows after four lengths of training, and whether their lower edge follows rate x steps = const",
    BY_LENGTH.draw,
    length_studies,
    (
        *_each("longer-widens", f"8 times the steps widen {{mixer}}'s window by at least {WIDER} decades", _longer),
        *_each(
            "edge-follows-steps",
            f"The lower edge of {{mixer}}'s window falls by as many decades as steps grow, within {WIDER}",
            _lower_edge,
        ),
    ),
    {
        "tiny": DIFFERS["tiny"].replace("2,000 steps", "500 to 4,000 steps"),
        "medium": DIFFERS["medium"].replace("25 epochs", "6 to 50 epochs"),
    },
)
