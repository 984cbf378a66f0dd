"""State tracking: Grazzi et al. 2025 (negative eigenvalues) and Siems et al. 2025 (DeltaProduct).

A linear recurrence whose transitions have eigenvalues between 0 and 1 cannot count modulo 2 at any length; with eigenvalues down
to -1 one layer of the delta rule can, and products of two and more steps track the state of larger groups.
"""

from dataclasses import replace
from typing import Any

import pandas as pd

from recollect.figures.panels import mean_and_range
from recollect.models.spec import ModelSpec
from recollect.papers.estimates import Estimate, NotEnough
from recollect.papers.item import Draw, Item, Paper, lines
from recollect.papers.judge import Claim, Evidence, Scale, claims
from recollect.papers.questions import Finding, at_least, at_most, exceeds
from recollect.sources.statetracking2025 import SOURCE
from recollect.study.spec import Study

NAME = SOURCE.name
Fields = dict[str, Any]
TIMES = 4
"""How many times as long as the longest trained rows the test's are."""
SOLVES, SCALED, BETTER = 0.95, 0.2, 0.2
"""The accuracy from which a task is solved; up to which scaled accuracy, 0 at chance and 1 where all is right, it is not learnt;
by how much more steps must be better."""
DECIDED: tuple[Scale, ...] = ("medium", "paper")
"""The scales that have the lengths which the papers train on."""
_PAPER = {"protocol": NAME, "seed": [42, 123, 777]}
TRAIN: dict[Scale, Fields] = {
    "tiny": {"steps": 1500, "batch": 64, "weight_decay": 0.0, "clip": 1.0, "eval_every": 100, "eval_rows": 256, "test_rows": 1024,
             "seed": _PAPER["seed"]},
    "medium": {**_PAPER, "steps": 3000, "lr": [1e-3, 3e-3], "clip": 1.0, "eval_every": 500},
    "paper": {**_PAPER, "lr": [1e-4, 3e-4, 1e-3, 3e-3, 1e-2]},
}  # fmt: skip
"""How the items are trained; at `tiny` each has rates of its own."""
LONGER = "final.tests.0.accuracy"


def _model(mixer: Any, scale: Scale, layers: int = 1) -> Fields:
    """Layers without MLPs; attention has rotary positions."""
    width = 32 if scale == "tiny" else 128
    fields = {"mixer": mixer, "layers": layers, "mlp": "none", "tie": False, "width": width}
    return {**fields, "positions": "rotary"} if mixer == "attention" else fields


def on_longer_rows(evidence: Evidence) -> Evidence:
    """The same evidence, the accuracy being that on longer rows, at the end of training. What rests on validation rows of the
    trained length is left out, so that the best rate is the one that is best on longer rows, for every model alike."""
    if LONGER not in evidence.runs:
        return evidence
    runs = evidence.runs.drop(columns=["final.valid", "best_accuracy", "best_step"], errors="ignore")
    return replace(evidence, runs=runs.assign(accuracy=runs[LONGER]))


def _longer(evidence: Evidence, mixer: Any, name: str, **values: Any) -> Estimate:
    """A mixer's accuracy on longer rows at the best of the rates tried, taken as final: what does not extrapolate by the end of
    training is not left open."""
    evidence = on_longer_rows(evidence)
    runs = evidence.where(model=ModelSpec(mixer=mixer).title, **values)
    return evidence.best(runs, f"{name}, four times the length", rates=set(runs["train.lr"]))


def _drawn(title: str, panel: str) -> Draw:
    """Draws accuracy at the trained length and on longer rows against the learning rate."""

    def by_rate(evidence: Evidence) -> pd.DataFrame:
        rows = {"trained length": evidence, "four times as long": on_longer_rows(evidence)}
        runs = pd.concat([one.runs.assign(rows=name) for name, one in rows.items()], ignore_index=True)
        runs["panel"] = [f"{row[panel]}, {row['rows']}" for row in runs.to_dict("records")]
        return mean_and_range(runs, [panel, "panel", "rows", "model", "train.lr"])

    note = "Band: lowest to highest seed."
    return lines(by_rate, "train.lr", "model", "panel", note=note, title=title, xlabel="learning rate", columns=2)


NEGATIVE: Fields = {"kind": "deltanet", "beta_max": 2.0}
LENGTH = {"tiny": 16, "medium": 40, "paper": 40}
WITHOUT = {"deltanet": "DeltaNet with beta up to 1", "mamba": "Mamba", "gla": "GLA", "attention": "Attention"}
"""Mixers that cannot count modulo 2 at any length."""


def parity_studies(scale: Scale) -> list[Study]:
    """Five mixers, trained on short strings and tested on strings four times as long."""
    if scale not in LENGTH:
        return []
    length = LENGTH[scale]
    # at tiny the parity of the bits so far is read at every bit, so that a minute of training is enough
    labels, layers = ("all", 1) if scale == "tiny" else ("last", 2)
    task = {"kind": "parity", "length": length, "labels": labels}
    test = {"kind": "parity", "min_length": TIMES * length, "length": TIMES * length}
    models = [_model(mixer, scale, layers) for mixer in (NEGATIVE, *WITHOUT)]
    train = {"lr": [1e-2, 3e-2], **TRAIN[scale]}
    return [Study(name=f"{NAME}.parity.{scale}", task=task, tests=[test], model=models, train=train)]


def _negative(evidence: Evidence) -> Estimate:
    return _longer(evidence, NEGATIVE, "deltanet, beta up to 2")


@claims("{name}-does-not-count", WITHOUT, DECIDED)
def _does_not_count(mixer: str, evidence: Evidence) -> Finding:
    """{words} has a scaled accuracy of at most {SCALED} on strings {TIMES} times as long as the longest trained"""
    return at_most(_longer(evidence, mixer, mixer), (1 + SCALED) / 2)


PARITY = Item(
    "parity", "Parity",
    "DeltaNet counts modulo 2 on strings four times as long as any it was trained on only where its beta goes up to 2",
    _drawn("Parity", "task.kind"), parity_studies,
    (
        Claim("negative-eigenvalues-count", f"DeltaNet with beta up to 2 reaches {SOLVES} on strings {TIMES} times as long as "
              "the longest trained", lambda e: at_least(_negative(e), SOLVES), DECIDED),
        *_does_not_count,
    ),
    {
        "tiny": "Strings of 3 to 16 bits, tested at 64; the parity is read at every bit; one layer without MLP, width 32, 1,500 "
        "steps of 64 fresh rows, 2 rates, 3 seeds. The paper: 3 to 40 bits, read at the last, tested at 40 to 256, two blocks, "
        "20,000 steps. The rate is the one that is best on longer strings.",
        "medium": "Tested at 160 bits; two layers without MLPs, width 128, 3,000 steps of 256, 2 rates, 3 seeds, float32.",
        "paper": "Tested at 160 bits; two layers without MLPs, width 128, 5 rates, 3 seeds.",
    },
)  # fmt: skip


def arithmetic_studies(scale: Scale) -> list[Study]:
    """Modular arithmetic without brackets, tested on expressions four times as long."""
    if scale not in LENGTH:
        return []
    length, modulus = (9, 3) if scale == "tiny" else (39, 5)
    task = {"kind": "modular", "modulus": modulus, "length": length}
    test = {**task, "min_length": TIMES * length - 1, "length": TIMES * length - 1}  # an odd number of tokens
    models = [_model(mixer, scale, 2) for mixer in (NEGATIVE, "deltanet", "mamba")]
    train = {"lr": [3e-3, 1e-2], **TRAIN[scale]}
    return [Study(name=f"{NAME}.arithmetic.{scale}", task=task, tests=[test], model=models, train=train)]


ARITHMETIC = Item(
    "arithmetic", "Modular arithmetic without brackets",
    "with beta up to 2 DeltaNet computes longer expressions than it was trained on better than with beta up to 1",
    _drawn("Modular arithmetic without brackets", "task.kind"), arithmetic_studies,
    (
        Claim("arithmetic-needs-negative-eigenvalues", f"On expressions {TIMES} times as long as the longest trained DeltaNet "
              f"with beta up to 2 is at least {BETTER} better than with beta up to 1",
              lambda e: exceeds(_negative(e), _longer(e, "deltanet", "deltanet, beta up to 1"), by=BETTER), DECIDED),
    ),
    {
        "tiny": "Modulo 3, expressions of 3 to 9 tokens, tested at 35; two layers without MLPs, width 32, 1,500 steps of 64 "
        "fresh rows, 2 rates, 3 seeds.",
        "medium": "Expressions of 3 to 39 tokens, tested at 155; two layers without MLPs, width 128, 3,000 steps of 256, "
        "2 rates, 3 seeds, float32.",
        "paper": "Tested at 155 tokens; two layers without MLPs, width 128, 3 seeds.",
    },
)  # fmt: skip

WORD = {"tiny": 16, "medium": 128, "paper": 128}
WORD_TRAIN: dict[Scale, Fields] = {
    "tiny": {"test_rows": 512, "lr": [1e-3, 3e-3]},
    "medium": {"epochs": 0, "steps": 4000, "train_rows": 0, "batch": 256, "test_rows": 1024, "lr": 1e-3, "warmup": 0.1},
    "paper": {"lr": 1e-3},
}
"""In what training on words differs from TRAIN."""
GROUPS: dict[Scale, dict[str, list[int]]] = {
    "tiny": {"s3": [1, 2]},
    "medium": {"s3": [1, 2], "s4": [1, 2], "a5": [1, 2], "s5": [1, 4]},
    "paper": {group: [1, 2, 3, 4] for group in ("s3", "s4", "a5", "s5")},
}
"""The groups, and how many steps of DeltaProduct are tried on each."""
ENOUGH = {"s3": 2, "s4": 2, "a5": 2, "s5": 4}
"""How many steps solve each group in one layer: S4 and A5 are groups of rotations, each a product of two reflections."""


def _product(steps: int, scale: Scale, **options: Any) -> Fields:
    """DeltaProduct with so many steps per token."""
    return {"kind": "deltaproduct", "steps": steps, **options, **({} if scale == "tiny" else {"heads": 8})}


def group_studies(scale: Scale) -> list[Study]:
    """DeltaProduct with several steps on the word problem of each group, controls on the first."""
    studies = []
    for group, steps in GROUPS.get(scale, {}).items():
        models = [_model(_product(n, scale), scale) for n in steps]
        if group == "s3":
            models += [_model(_product(2, scale, beta_max=1.0), scale), _model("attention", scale, 2)]
        task = {"kind": "words", "group": group, "length": WORD[scale]}
        test = {**task, "length": TIMES * WORD[scale], "after": WORD[scale]}
        train = TRAIN[scale] | WORD_TRAIN[scale]
        studies.append(Study(name=f"{NAME}.{group}.{scale}", task=task, tests=[test], model=models, train=train))
    return studies


def _tried(evidence: Evidence, group: str, steps: int, **options: Any) -> Fields:
    """DeltaProduct with so many steps; NotEnough at scales that do not have the group."""
    if group not in GROUPS.get(evidence.scale, {}):
        raise NotEnough(f"scale {evidence.scale} does not have {group}", "not seen at this scale")
    return _product(steps, evidence.scale, **options)


def _steps(evidence: Evidence, group: str, steps: int, **options: Any) -> Estimate:
    """The accuracy of DeltaProduct beyond the trained length."""
    limit = "beta up to 1" if options else "beta up to 2"
    mixer = _tried(evidence, group, steps, **options)
    return _longer(evidence, mixer, f"{group}, {steps} steps, {limit}", group=group)


@claims("solves-{name}", ENOUGH, DECIDED)
def _solves(group: str, evidence: Evidence) -> Finding:
    """One layer of DeltaProduct with {words} steps and beta up to 2 reaches {SOLVES} on {title} at the trained length"""
    mixer = _tried(evidence, group, ENOUGH[group])
    runs = evidence.where(model=ModelSpec(mixer=mixer).title, group=group)
    return at_least(evidence.best(runs, f"{group}, {ENOUGH[group]} steps, trained length"), SOLVES)


@claims("{name}-holds-beyond", ENOUGH, DECIDED)
def _holds_beyond(group: str, evidence: Evidence) -> Finding:
    """On {title} it reaches {SOLVES} beyond the trained length, up to {TIMES} times it"""
    return at_least(_steps(evidence, group, ENOUGH[group]), SOLVES)


@claims("{name}-needs-steps", ENOUGH, DECIDED)
def _needs_steps(group: str, evidence: Evidence) -> Finding:
    """On {title} beyond the trained length {words} steps are at least {BETTER} better than one"""
    return exceeds(_steps(evidence, group, ENOUGH[group]), _steps(evidence, group, 1), by=BETTER)


def _attention_fails(evidence: Evidence) -> Finding:
    chance = 1 / 6
    return at_most(_longer(evidence, "attention", "attention, s3", group="s3"), chance + SCALED * (1 - chance))


WORDS = Item(
    "groups", "Word problems of groups",
    "one layer of DeltaProduct tracks S3, S4 and A5 with two steps per token and S5 with four",
    _drawn("Word problems of groups", "task.group"), group_studies,
    (
        *_solves, *_holds_beyond, *_needs_steps,
        Claim("s3-needs-negative-eigenvalues", "On S3 beyond the trained length two steps with beta up to 2 are at least "
              f"{BETTER} better than with beta up to 1",
              lambda e: exceeds(_steps(e, "s3", 2), _steps(e, "s3", 2, beta_max=1.0), by=BETTER), DECIDED),
        Claim("attention-fails-beyond", f"Two layers of attention have a scaled accuracy of at most {SCALED} on S3 beyond the "
              "trained length", _attention_fails, DECIDED),
    ),
    {
        "tiny": "S3 only; words of 16 elements, tested on the elements 17 to 64; width 32, 2 heads, 1,500 steps of 64 fresh "
        "rows, 2 rates, 3 seeds. The paper: 128 and 512 elements, S3, S4, A5 and S5. The rate is the one that is best on "
        "longer words.",
        "medium": "128 elements, tested on 129 to 512; width 128, 4,000 steps of 256 fresh rows, rate 1e-3, 3 seeds, "
        "float32. The paper: 100 epochs over 100,000 rows in batches of 2,048.",
        "paper": "Width 128; DeltaProduct states neither the width nor the schedule.",
    },
)  # fmt: skip
PAPER = Paper(NAME, SOURCE.title, (PARITY, ARITHMETIC, WORDS), ("tiny", "medium", "paper"), SOURCE.unknown)
