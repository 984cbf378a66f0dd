"""State tracking: Grazzi et al. 2025 (negative eigenvalues) and Siems et al. 2025 (DeltaProduct).

A linear recurrence whose transitions have eigenvalues between 0 and 1 cannot count modulo 2 at any length; with eigenvalues down
to -1 one layer of the delta rule can, and products of two and more steps track the state of larger groups.
"""

from functools import partial
from typing import Any

import pandas as pd

from recollect.figures.panels import lines_figure, summary
from recollect.models.spec import ModelSpec
from recollect.papers.estimates import Estimate
from recollect.papers.item import Drawing, Item, Paper
from recollect.papers.judge import Claim, Evidence, Scale
from recollect.papers.longer_rows import best_of_rates, on_longer_rows
from recollect.papers.questions import Finding, at_least, at_most, exceeds
from recollect.sources.statetracking2025 import SOURCE
from recollect.study.spec import Study

NAME = "statetracking2025"
TIMES = 4
"""How many times as long as the longest trained rows the test's are."""
SOLVES, SCALED, BETTER = 0.95, 0.2, 0.2
"""The accuracy from which a task is solved; up to which scaled accuracy, 0 at chance and 1 where all is right, it is not learnt;
by how much more steps must be better."""
OWN: tuple[Any, ...] = ("medium", "paper")
"""The scales that have the lengths which the papers train on."""
NEGATIVE: dict[str, Any] = {"kind": "deltanet", "beta_max": 2.0}
PARITY: list[Any] = [NEGATIVE, "deltanet", "mamba", "gla", "attention"]
LENGTH = {"tiny": 16, "medium": 40, "paper": 40}
WORD = {"tiny": 16, "medium": 128, "paper": 128}
GROUPS: dict[Scale, dict[str, list[int]]] = {
    "tiny": {"s3": [1, 2]},
    "medium": {"s3": [1, 2], "s4": [1, 2], "a5": [1, 2], "s5": [1, 4]},
    "paper": {"s3": [1, 2, 3, 4], "s4": [1, 2, 3, 4], "a5": [1, 2, 3, 4], "s5": [1, 2, 3, 4]},
}
"""The groups, and how many steps of DeltaProduct are tried on each."""
ENOUGH = {"s3": 2, "s4": 2, "a5": 2, "s5": 4}
"""How many steps solve each group in one layer: S4 and A5 are groups of rotations, each a product of two reflections."""
WITHOUT = {"deltanet": "DeltaNet with beta up to 1", "mamba": "Mamba", "gla": "GLA", "attention": "Attention"}
"""Mixers that cannot count modulo 2 at any length."""
SEEDS = [42, 123, 777]


def _model(mixer: Any, scale: Scale, layers: int = 1) -> dict[str, Any]:
    """Layers without MLPs; attention has rotary positions."""
    width = 32 if scale == "tiny" else 128
    fields = {"mixer": mixer, "layers": layers, "mlp": "none", "tie": False, "width": width}
    return {**fields, "positions": "rotary"} if mixer == "attention" else fields


def product(steps: int, scale: Scale, **options: Any) -> dict[str, Any]:
    """DeltaProduct with so many steps per token."""
    return {"kind": "deltaproduct", "steps": steps, **options, **({} if scale == "tiny" else {"heads": 8})}


def parity_studies(scale: Scale) -> list[Study]:
    """Five mixers, trained on short strings and tested on strings four times as long."""
    if scale not in LENGTH:
        return []
    length = LENGTH[scale]
    # at tiny the parity of the bits so far is read at every bit, so that a minute of training is enough
    labels, layers = ("all", 1) if scale == "tiny" else ("last", 2)
    tasks = {"kind": "parity", "length": length, "labels": labels}
    test = {"kind": "parity", "min_length": TIMES * length, "length": TIMES * length}
    how: dict[Scale, dict[str, Any]] = {
        "tiny": {"steps": 1500, "batch": 64, "weight_decay": 0.0, "clip": 1.0, "eval_every": 100, "eval_rows": 256,
                 "test_rows": 1024, "lr": [1e-2, 3e-2]},
        "medium": {"protocol": NAME, "steps": 3000, "lr": [1e-3, 3e-3], "clip": 1.0, "eval_every": 500},
        "paper": {"protocol": NAME, "lr": [1e-4, 3e-4, 1e-3, 3e-3, 1e-2]},
    }  # fmt: skip
    models = [_model(mixer, scale, layers) for mixer in PARITY]
    return [
        Study(
            name=f"{NAME}.parity.{scale}", task=tasks, tests=[test], model=models, train={**how[scale], "seed": SEEDS}
        )
    ]


def group_studies(scale: Scale) -> list[Study]:
    """DeltaProduct with several steps on the word problem of each group, controls on the first."""
    if scale not in WORD:
        return []
    how: dict[Scale, dict[str, Any]] = {
        "tiny": {"steps": 1500, "batch": 64, "weight_decay": 0.0, "clip": 1.0, "eval_every": 100, "eval_rows": 256,
                 "test_rows": 512, "lr": [1e-3, 3e-3]},
        "medium": {"protocol": NAME, "epochs": 0, "steps": 4000, "train_rows": 0, "batch": 256, "test_rows": 1024, "lr": 1e-3,
                   "warmup": 0.1, "clip": 1.0, "eval_every": 500},
        "paper": {"protocol": NAME, "lr": 1e-3},
    }  # fmt: skip
    length, studies = WORD[scale], []
    for group, steps in GROUPS[scale].items():
        models = [_model(product(n, scale), scale) for n in steps]
        if group == "s3":
            models += [_model(product(2, scale, beta_max=1.0), scale), _model("attention", scale, 2)]
        task, test = {"kind": "words", "group": group, "length": length}, TIMES * length
        studies.append(
            Study(name=f"{NAME}.{group}.{scale}", task=task, tests=[{**task, "length": test, "after": length}],
                  model=models, train={**how[scale], "seed": SEEDS})
        )  # fmt: skip
    return studies


def _drawn(evidence: Evidence, by: list[str], title: str, panel: str, caption: str) -> Drawing:
    """Accuracy at the trained length and on longer rows against the learning rate."""
    parts = [
        evidence.runs.assign(rows="trained length"),
        on_longer_rows(evidence).runs.assign(rows="four times as long"),
    ]
    runs = pd.concat(parts, ignore_index=True) if len(evidence.runs) else pd.DataFrame()
    if len(runs):
        runs["panel"] = [f"{row[panel]}, {row['rows']}" for row in runs.to_dict("records")]
    table = summary(runs, [*by, "panel", "rows", "model", "train.lr"])
    figure = lines_figure(
        table, "train.lr", "model", "panel", title=title, caption=f"{caption} Band: lowest to highest seed.",
        xlabel="learning rate", columns=2,
    )  # fmt: skip
    return figure, table


def draw_parity(evidence: Evidence, caption: str) -> Drawing:
    """A panel for each length of rows."""
    return _drawn(evidence, ["task.kind"], "Parity", "task.kind", caption)


def draw_groups(evidence: Evidence, caption: str) -> Drawing:
    """Two panels for each group."""
    return _drawn(evidence, ["task.group"], "Word problems of groups", "task.group", caption)


def _longer(evidence: Evidence, mixer: Any, name: str, **values: Any) -> Estimate:
    """A mixer's accuracy on longer rows."""
    evidence = on_longer_rows(evidence)
    runs = evidence.where(model=ModelSpec(mixer=mixer).title, **values)
    return best_of_rates(evidence, runs, f"{name}, four times the length")


def _counts(evidence: Evidence) -> Finding:
    return at_least(_longer(evidence, NEGATIVE, "deltanet, beta up to 2"), SOLVES)


def _does_not_count(mixer: str, evidence: Evidence) -> Finding:
    return at_most(_longer(evidence, mixer, mixer), (1 + SCALED) / 2)


def _steps(evidence: Evidence, group: str, steps: int, **options: Any) -> Estimate:
    limit = "beta up to 1" if options else "beta up to 2"
    return _longer(evidence, product(steps, evidence.scale, **options), f"{group}, {steps} steps, {limit}", group=group)


def _solves(group: str, evidence: Evidence) -> Finding:
    mixer = product(ENOUGH[group], evidence.scale)
    runs = evidence.where(model=ModelSpec(mixer=mixer).title, group=group)
    return at_least(evidence.best(runs, f"{group}, {ENOUGH[group]} steps, trained length"), SOLVES)


def _holds_beyond(group: str, evidence: Evidence) -> Finding:
    return at_least(_steps(evidence, group, ENOUGH[group]), SOLVES)


def _needs_steps(group: str, evidence: Evidence) -> Finding:
    return exceeds(_steps(evidence, group, ENOUGH[group]), _steps(evidence, group, 1), by=BETTER)


def _needs_negative(evidence: Evidence) -> Finding:
    return exceeds(_steps(evidence, "s3", 2), _steps(evidence, "s3", 2, beta_max=1.0), by=BETTER)


def _attention_fails(evidence: Evidence) -> Finding:
    chance = 1 / 6
    return at_most(_longer(evidence, "attention", "attention, s3", group="s3"), chance + SCALED * (1 - chance))


PARITY_ITEM = Item(
    "parity",
    "Parity",
    "DeltaNet counts modulo 2 on strings four times as long as any it was trained on only where its beta goes up to 2",
    draw_parity,
    parity_studies,
    (
        Claim(
            "negative-eigenvalues-count",
            f"DeltaNet with beta up to 2 reaches {SOLVES} on strings {TIMES} times as long as the longest trained",
            _counts,
            OWN,
        ),
        *(
            Claim(
                f"{mixer}-does-not-count",
                f"{words} has a scaled accuracy of at most {SCALED} on strings {TIMES} times as long as the longest trained",
                partial(_does_not_count, mixer),
                OWN,
            )
            for mixer, words in WITHOUT.items()
        ),
    ),
    {
        "tiny": "Strings of 3 to 16 bits, tested at 64; the parity is read at every bit; one layer without MLP, width 32, 1,500 "
        "steps of 64 fresh rows, 2 rates, 3 seeds. The paper: 3 to 40 bits, read at the last, tested at 40 to 256, two blocks, "
        "20,000 steps. The rate is the one that is best on longer strings.",
        "medium": "Tested at 160 bits; two layers without MLPs, width 128, 3,000 steps of 256, 2 rates, 3 seeds, float32.",
        "paper": "Tested at 160 bits; two layers without MLPs, width 128, 5 rates, 3 seeds.",
    },
)
GROUPS_ITEM = Item(
    "groups",
    "Word problems of groups",
    "one layer of DeltaProduct tracks S3, S4 and A5 with two steps per token and S5 with four",
    draw_groups,
    group_studies,
    (
        *(
            Claim(
                f"solves-{group}",
                f"One layer of DeltaProduct with {steps} steps and beta up to 2 reaches {SOLVES} on {group.upper()} at the "
                "trained length",
                partial(_solves, group),
                OWN,
            )
            for group, steps in ENOUGH.items()
        ),
        *(
            Claim(
                f"{group}-holds-beyond",
                f"On {group.upper()} it reaches {SOLVES} beyond the trained length, up to {TIMES} times it",
                partial(_holds_beyond, group),
                OWN,
            )
            for group in ENOUGH
        ),
        *(
            Claim(
                f"{group}-needs-steps",
                f"On {group.upper()} beyond the trained length {steps} steps are at least {BETTER} better than one",
                partial(_needs_steps, group),
                OWN,
            )
            for group, steps in ENOUGH.items()
        ),
        Claim(
            "s3-needs-negative-eigenvalues",
            f"On S3 beyond the trained length two steps with beta up to 2 are at least {BETTER} better than with beta up to 1",
            _needs_negative,
            OWN,
        ),
        Claim(
            "attention-fails-beyond",
            f"Two layers of attention have a scaled accuracy of at most {SCALED} on S3 beyond the trained length",
            _attention_fails,
            OWN,
        ),
    ),
    {
        "tiny": "S3 only; words of 16 elements, tested on the elements 17 to 64; width 32, 2 heads, 1,500 steps of 64 fresh "
        "rows, 2 rates, 3 seeds. The paper: 128 and 512 elements, S3, S4, A5 and S5. The rate is the one that is best on "
        "longer words.",
        "medium": "128 elements, tested on 129 to 512; width 128, 4,000 steps of 256 fresh rows, rate 1e-3, 3 seeds, "
        "float32. The paper: 100 epochs over 100,000 rows in batches of 2,048.",
        "paper": "Width 128; DeltaProduct states neither the width nor the schedule.",
    },
)
PAPER = Paper(
    NAME,
    SOURCE.title,
    (PARITY_ITEM, GROUPS_ITEM),
    ("tiny", "medium", "paper"),
    SOURCE.unknown,
)
