"""Arora et al., "Zoology" (2024), figure 2; and the trade-off of recall against state size of its sequel, the Based paper.

Both have two layers without MLPs (Zoology's identity), four learning rates, and here three seeds instead of one, so that there
are intervals.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from recollect.analysis.groups import groups
from recollect.analysis.rates import at_best_rate
from recollect.analysis.window import THRESHOLD, ZOOLOGY_RATES
from recollect.inspect.sizes import state_sizes
from recollect.papers.estimates import Estimate, mean_of
from recollect.papers.item import Item, Paper, best_lines, lines
from recollect.papers.judge import Claim, Evidence, Scale, claim
from recollect.papers.questions import Finding, at_least, every, exceeds
from recollect.sources.zoology2024 import SOURCE
from recollect.study.spec import Study

NAME = SOURCE.name
BETTER, RISES, NOT_BELOW = 0.2, 0.5, 0.05
"""The least lead of attention in accuracy; the least rank correlation of accuracy with state size; the most by which attention
may be below a recurrent model."""
GATED = ["h3", "hyena", "rwkv"]
MODELS = ["attention", *GATED]
SETTINGS = {"tiny": [(16, 4)], "small": [(64, 4), (128, 8)], "paper": [(64, 4), (128, 8), (256, 16), (512, 64)]}
WIDTHS = {"tiny": [16, 32], "small": [64, 128], "paper": [64, 128, 256, 512]}
MIXTURE = {
    "tiny": [(8, 2), (16, 2), (16, 4)],
    "small": [(64, 4), (64, 8), (64, 16)],
    "paper": [(64, 4), (128, 8), (256, 16), (256, 32), (256, 64)],
}
FIRST = 5
"""Rows of the mixture's first setting per row of another."""
TESTS = {
    "tiny": [(8, 2), (16, 2), (16, 4), (24, 6)],
    "small": [(64, 4), (64, 8), (64, 16), (128, 32)],
    "paper": [(64, 4), (64, 8), (64, 16), (128, 32), (256, 64), (512, 128), (1024, 256)],
}
"""The tests of models of the mixture, with equal weights."""
BASED_RATES = [float(f"{rate:.12g}") for rate in np.logspace(-3, -1.5, 4)]
"""The four learning rates of the Based paper."""
MIXERS: list[Any] = [
    "attention", {"kind": "based", "feature_dim": 8}, "based", "mamba", "mamba2", "deltanet", "hyena", "h3", "rwkv",
]  # fmt: skip
LESS: dict[Scale, str] = {
    "tiny": "16 tokens, 4 pairs, 32 words; fresh rows, batch 64, at most 1,000 steps, head not tied, attention with rotary "
    "positions, 2 seeds. The paper: 8,192 words, 64 epochs over 100,000 rows, widths 64 to 512.",
    "small": "8 epochs instead of 64; widths 64 and 128; 3 seeds.",
    "paper": "3 seeds instead of 1.",
}


MIXTURE_LESS: dict[Scale, str] = {
    "tiny": "MQAR at (8, 2), (16, 2) and (16, 4), 5 : 1 : 1 of the rows, tests up to (24, 6), 32 words, no filler that is a "
    "key; fresh rows, batch 64, at most 1,000 steps, head not tied, attention with rotary positions, 2 seeds.",
    "small": "MQAR at (64, 4), (64, 8) and (64, 16), 5 : 1 : 1 of 100,000 rows, tests up to (128, 32); 8 epochs; widths 64 and "
    "128; 3 seeds.",
    "paper": "The released settings, their shares of 180,000 rows, filler, rates, 32 epochs, batch and tests; 3 seeds instead "
    "of 1, widths 64 to 512 instead of 48 to 256.",
}
BASED_LESS = (
    "Every batch has rows of all settings, and a run ends at 99 % on such rows; the released code takes one setting after the "
    "other, and ends at 99 % on the tests. The released Based and attention begin with a convolution, which is left out "
    "here. Accuracy is the mean over the tests."
)


def _tasks(scale: Scale, settings: Sequence[tuple[int, int]], filler: str = "blank") -> list[dict[str, Any]]:
    extra: dict[str, Any] = {"filler": filler, "variant": "zoology"}
    if scale == "tiny":  # with so few words random filler of the released generator would often be a key
        extra |= {"vocab": 32} if filler == "blank" else {"vocab": 32, "variant": "clean"}
    return [{"kind": "mqar", "length": length, "pairs": pairs, **extra} for length, pairs in settings]


def _model(mixer: Any, scale: Scale) -> dict[str, Any]:
    """Two layers without MLPs; dropout on embeddings and attention as in the released configuration."""
    kind = mixer if isinstance(mixer, str) else mixer["kind"]
    fields: dict[str, Any] = {"width": WIDTHS[scale], "layers": 2, "mlp": "identity"}
    if scale == "tiny":
        return {"mixer": mixer, **fields, "tie": False, **({"positions": "rotary"} if kind == "attention" else {})}
    if kind == "attention":
        mixer = {"kind": "attention", "dropout": 0.1}
    return {"mixer": mixer, **fields, "dropout_embedding": 0.1}


def _train(scale: Scale) -> dict[str, Any]:
    how: dict[Scale, dict[str, Any]] = {
        "tiny": {"protocol": NAME, "steps": 1000, "train_rows": 0, "batch": 64, "eval_every": 25, "eval_rows": 256,
                 "test_rows": 1024, "seed": [42, 123]},
        "small": {"protocol": NAME, "epochs": 8, "seed": [42, 123, 777]},
        "paper": {"protocol": NAME, "seed": [42, 123, 777]},
    }  # fmt: skip
    return {"lr": [float(f"{rate:.12g}") for rate in ZOOLOGY_RATES], **how[scale]}


def fig2_studies(scale: Scale) -> list[Study]:
    """Four models, every setting and width."""
    models = [_model(mixer, scale) for mixer in MODELS]
    tasks = _tasks(scale, SETTINGS[scale])
    return [Study(name=f"{NAME}.fig2.{scale}", task=tasks, model=models, train=_train(scale))]


def _by_width(evidence: Evidence) -> pd.DataFrame:
    """Accuracy against width, a panel per setting."""
    table = best_lines(evidence.runs, ["model.mixer", "task.length", "task.pairs", "model.width"])
    return table.assign(panel=[f"({row['task.length']}, {row['task.pairs']})" for _, row in table.iterrows()])


def _attention_solves(evidence: Evidence) -> Finding:
    found = [
        evidence.best(rows, f"attention, {at['task.length']} tokens, width {at['model.width']}")
        for at, rows in groups(evidence.where(**{"model.mixer": "attention"}), ["task.length", "model.width"])
    ]
    return every(found, lambda one: at_least(one, THRESHOLD))


def _gated_fall_short(evidence: Evidence) -> Finding:
    length, width = max(evidence.runs["task.length"]), min(evidence.runs["model.width"])

    def accuracy(kind: str) -> Estimate:
        return evidence.best(evidence.where(**{"model.mixer": kind}, length=length, width=width), kind)

    return every(GATED, lambda kind: exceeds(accuracy("attention"), accuracy(kind), by=BETTER))


FIG2 = Item(
    "fig2", "Accuracy against width, four rates", "attention solves at any width, gated convolutions need width",
    lines(
        _by_width, "model.width", "model.mixer", "panel", title="Zoology, figure 2: accuracy against width", xlabel="width",
        columns=4,
    ),
    fig2_studies,
    (
        Claim("attention-solves", f"2-layer attention reaches {THRESHOLD} at every width and setting", _attention_solves),
        Claim("gated-fall-short", "In the longest setting at the smallest width, attention is at least "
              f"{BETTER} better than each of H3, Hyena and RWKV", _gated_fall_short),
    ),
    LESS,
)  # fmt: skip


def tradeoff_studies(scale: Scale) -> list[Study]:
    """Nine mixers on a mixture of settings."""
    first, *others = _tasks(scale, MIXTURE[scale], filler="random")
    task = {"kind": "mixture", "parts": [{**first, "weight": FIRST}, *others]}
    models = [_model(mixer, scale) for mixer in MIXERS]
    tests = _tasks(scale, TESTS[scale], filler="random")
    train = {**_train(scale), "lr": BASED_RATES}
    if scale == "paper":
        train |= {"epochs": 32, "batch": 256, "train_rows": 180_000, "test_rows": 1000}
    return [Study(name=f"{NAME}.tradeoff.{scale}", task=task, model=models, train=train, tests=tests)]


def _with_state(evidence: Evidence) -> pd.DataFrame:
    """The runs with the size of their state, their accuracy being the mean over the tests."""
    runs = evidence.runs
    sizes = state_sizes(run for study in tradeoff_studies(evidence.scale) for run in study.runs())
    tests = [name for name in runs if name.startswith("final.tests.") and name.endswith(".accuracy")]
    accuracy = runs[tests].mean(axis=1) if tests else runs["accuracy"]
    return runs.assign(state=runs["id"].map(sizes.get), accuracy=accuracy)


@claim("more-state-recalls-better")
def _rises_with_state(evidence: Evidence) -> Finding:
    """Over recurrent models and widths, accuracy at the best rate has a rank correlation of at least {RISES} with state
    size"""
    runs = _with_state(evidence)
    recurrent = runs.loc[runs["model.mixer"] != "attention"]
    correlations = []
    for _, one in recurrent.groupby("train.seed"):
        table = at_best_rate(one, ["model", "model.width", "state"])
        correlations.append(float(np.corrcoef(table["state"].rank(), table["accuracy"].rank())[0, 1]))
    return at_least(mean_of(correlations, "rank correlation of accuracy with state"), RISES)


@claim("attention-leads")
def _attention_leads(evidence: Evidence) -> Finding:
    """At the largest width, attention is no more than {NOT_BELOW} below any recurrent model"""
    evidence = replace(evidence, runs=_with_state(evidence))
    width = max(evidence.runs["model.width"])
    attention = evidence.best(evidence.where(**{"model.mixer": "attention"}, width=width), "attention")
    others = dict.fromkeys(evidence.where(width=width).loc[lambda runs: runs["model.mixer"] != "attention", "model"])

    def leads(name: str) -> Finding:
        return exceeds(attention, evidence.best(evidence.where(model=name, width=width), name), by=-NOT_BELOW)

    return every(others, leads)


TRADEOFF = Item(
    "tradeoff", "Recall against state size", "over recurrent models and widths, more state goes with better recall",
    lines(
        lambda e: best_lines(_with_state(e), ["model", "model.width", "state"]), "state", "model",
        title="Recall against state size", xlabel="elements of recurrent state after the longest row",
    ),
    tradeoff_studies, (_rises_with_state, _attention_leads),
    {scale: f"{text} {BASED_LESS}" for scale, text in MIXTURE_LESS.items()},
)  # fmt: skip
PAPER = Paper(NAME, SOURCE.title, (FIG2, TRADEOFF), ("tiny", "small", "paper"), SOURCE.unknown)
