"""Word problems of groups: how many steps per token one layer of DeltaProduct needs (Siems et al. 2025)."""

from collections.abc import Callable
from typing import Any

from recollect.models.spec import ModelSpec
from recollect.papers.estimates import Estimate, NotEnough
from recollect.papers.item import Item
from recollect.papers.judge import Claim, Evidence, Scale
from recollect.papers.questions import Finding, at_least, at_most, exceeds
from recollect.papers.statetracking2025.settings import (
    BETTER,
    NAME,
    OWN,
    SCALED,
    SOLVES,
    TIMES,
    TRAIN,
    drawn,
    longer,
    model,
)
from recollect.study.spec import Study

WORD = {"tiny": 16, "medium": 128, "paper": 128}
GROUPS: dict[Scale, dict[str, list[int]]] = {
    "tiny": {"s3": [1, 2]},
    "medium": {"s3": [1, 2], "s4": [1, 2], "a5": [1, 2], "s5": [1, 4]},
    "paper": {"s3": [1, 2, 3, 4], "s4": [1, 2, 3, 4], "a5": [1, 2, 3, 4], "s5": [1, 2, 3, 4]},
}
"""The groups, and how many steps of DeltaProduct are tried on each."""
ENOUGH = {"s3": 2, "s4": 2, "a5": 2, "s5": 4}
"""How many steps solve each group in one layer: S4 and A5 are groups of rotations, each a product of two reflections."""


def product(steps: int, scale: Scale, **options: Any) -> dict[str, Any]:
    """DeltaProduct with so many steps per token."""
    return {"kind": "deltaproduct", "steps": steps, **options, **({} if scale == "tiny" else {"heads": 8})}


def group_studies(scale: Scale) -> list[Study]:
    """DeltaProduct with several steps on the word problem of each group, controls on the first."""
    if scale not in WORD:
        return []
    how: dict[Scale, dict[str, Any]] = {
        "tiny": {"test_rows": 512, "lr": [1e-3, 3e-3]},
        "medium": {
            "epochs": 0,
            "steps": 4000,
            "train_rows": 0,
            "batch": 256,
            "test_rows": 1024,
            "lr": 1e-3,
            "warmup": 0.1,
        },
        "paper": {"lr": 1e-3},
    }
    length, studies = WORD[scale], []
    for group, steps in GROUPS[scale].items():
        models = [model(product(n, scale), scale) for n in steps]
        if group == "s3":
            models += [model(product(2, scale, beta_max=1.0), scale), model("attention", scale, 2)]
        task, test = {"kind": "words", "group": group, "length": length}, TIMES * length
        studies.append(
            Study(name=f"{NAME}.{group}.{scale}", task=task, tests=[{**task, "length": test, "after": length}],
                  model=models, train={**TRAIN[scale], **how[scale]})
        )  # fmt: skip
    return studies


def _steps(evidence: Evidence, group: str, steps: int, **options: Any) -> Estimate:
    limit = "beta up to 1" if options else "beta up to 2"
    return longer(evidence, product(steps, evidence.scale, **options), f"{group}, {steps} steps, {limit}", group=group)


def _on(group: str, test: Callable[[str, Evidence], Finding]) -> Callable[[Evidence], Finding]:
    """A test of a group, left open at scales that do not have the group."""

    def asked(evidence: Evidence) -> Finding:
        if group not in GROUPS.get(evidence.scale, {}):
            raise NotEnough(f"scale {evidence.scale} does not have {group}", "not seen at this scale")
        return test(group, evidence)

    return asked


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
    return at_most(longer(evidence, "attention", "attention, s3", group="s3"), chance + SCALED * (1 - chance))


WORDS = Item(
    "groups",
    "Word problems of groups",
    "one layer of DeltaProduct tracks S3, S4 and A5 with two steps per token and S5 with four",
    drawn("Word problems of groups", "task.group"),
    group_studies,
    (
        *(
            Claim(
                f"solves-{group}",
                f"One layer of DeltaProduct with {steps} steps and beta up to 2 reaches {SOLVES} on {group.upper()} at the "
                "trained length",
                _on(group, _solves),
                OWN,
            )
            for group, steps in ENOUGH.items()
        ),
        *(
            Claim(
                f"{group}-holds-beyond",
                f"On {group.upper()} it reaches {SOLVES} beyond the trained length, up to {TIMES} times it",
                _on(group, _holds_beyond),
                OWN,
            )
            for group in ENOUGH
        ),
        *(
            Claim(
                f"{group}-needs-steps",
                f"On {group.upper()} beyond the trained length {steps} steps are at least {BETTER} better than one",
                _on(group, _needs_steps),
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
