"""Kimi Team, "Kimi Linear" (2025), 5.1: palindromes, MQAR and stacks at growing lengths; KDA, Gated DeltaNet and Mamba2."""

from functools import partial
from typing import Any

import pandas as pd

from recollect.models.spec import ModelSpec
from recollect.papers.estimates import Estimate
from recollect.papers.item import Item, Paper, best_lines, lines
from recollect.papers.judge import Claim, Evidence, Scale
from recollect.papers.questions import Finding, exceeds
from recollect.sources.kimi2025 import SOURCE
from recollect.study.spec import Study

NAME = "kimi2025"
MIXERS = ("kda", "gated_deltanet", "mamba2")
LENGTHS: dict[Scale, list[int]] = {"tiny": [16, 32], "medium": [256, 512], "paper": [256, 512, 1024, 2048]}
"""Tokens in a row."""
UNITS = {"palindrome": "letters", "stacks": "operations", "mqar": "tokens"}
"""What grows with the length of a row."""
RATES = [5e-5, 1e-4, 5e-4, 1e-3]
NOT_BELOW, BETTER = 0.02, 0.2
"""How far below Gated DeltaNet KDA may be; by how much it must be better than Mamba2."""


def _task(what: str, length: int, scale: Scale) -> dict[str, Any]:
    """A task with rows of about so many tokens."""
    tiny = scale == "tiny"
    if what == "palindrome":
        letters = (length - 2) // 2
        return {"kind": "copy", "reverse": True, "min_length": letters, "length": letters}
    if what == "stacks":
        few = {"stacks": 4, "symbols": 8} if tiny else {}
        return {"kind": "stacks", "operations": length // 3, **few}
    pairs = length // 8
    return {"kind": "mqar", "length": length, "pairs": pairs, "filler": "blank", **({"vocab": 64} if tiny else {})}


def task_studies(what: str, scale: Scale) -> list[Study]:
    """Three mixers at each length."""
    if scale not in LENGTHS:
        return []
    how: dict[Scale, dict[str, Any]] = {
        "tiny": {"steps": 800, "batch": 32, "eval_every": 50, "eval_rows": 128, "test_rows": 512, "lr": [1e-3, 5e-3],
                 "seed": [42, 123]},
        "medium": {"steps": 5000, "lr": [5e-4, 1e-3], "seed": [42, 123], "eval_every": 250},
        "paper": {"lr": RATES, "seed": [42, 123, 777]},
    }  # fmt: skip
    width = 32 if scale == "tiny" else 256
    precision = {} if scale == "tiny" else {"precision": "bfloat16"}
    return [
        Study(
            name=f"{NAME}.{what}.{scale}",
            task=[_task(what, length, scale) for length in LENGTHS[scale]],
            model=[{"mixer": mixer, "width": width, "layers": 2, "tie": False} for mixer in MIXERS],
            train={"protocol": NAME, **precision, **how[scale]},
        )
    ]


def _size(runs: pd.DataFrame) -> pd.Series:
    """What grows with the length of a row: letters, tokens or operations."""
    return pd.Series(runs["task.operations" if "task.operations" in runs else "task.length"], dtype=int)


def _longest(evidence: Evidence, mixer: str) -> Estimate:
    runs = evidence.where(model=ModelSpec(mixer=mixer).title)
    return evidence.best(runs.loc[_size(runs) == _size(runs).max()], f"{mixer}, longest rows")


def _beats(other: str, by: float, evidence: Evidence) -> Finding:
    return exceeds(_longest(evidence, "kda"), _longest(evidence, other), by=by)


def _item(what: str, title: str, note: str) -> Item:
    return Item(
        what, title, "accuracy against length: KDA at least as good as Gated DeltaNet, Mamba2 falls behind",
        lines(
            lambda e: best_lines(e.runs.assign(size=_size(e.runs)), ["model", "size"]), "size", "model",
            title=f"Kimi Linear: {what}", xlabel=UNITS[what],
        ),
        partial(task_studies, what),
        (
            Claim(f"{what}-kda-not-below-gated-deltanet", f"On the longest rows KDA is no more than {NOT_BELOW} below Gated "
                  "DeltaNet", partial(_beats, "gated_deltanet", -NOT_BELOW)),
            Claim(f"{what}-kda-beats-mamba2", f"On the longest rows KDA is at least {BETTER} better than Mamba2",
                  partial(_beats, "mamba2", BETTER)),
        ),
        {
            "tiny": f"{note} Rows of 16 and 32 tokens, width 32, at most 800 steps of 32, 2 rates, 2 seeds.",
            "medium": f"{note} Rows of 256 and 512 tokens, at most 5,000 steps of 128, 2 rates, 2 seeds.",
            "paper": f"{note} 3 seeds.",
        },
    )  # fmt: skip


ITEMS = (
    _item("palindrome", "Palindromes", "Letters of the alphabet, every letter of the reversed string is read."),
    _item(
        "mqar", "Multi-query associative recall", "A pair per 8 tokens, blank filler, no separator, answers not fed."
    ),
    _item("stacks", "Stacks", "Pushes and pops equally likely; the paper's law is not stated."),
)
PAPER = Paper(NAME, SOURCE.title, ITEMS, ("tiny", "medium", "paper"), SOURCE.unknown)
