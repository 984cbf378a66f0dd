"""Counting modulo 2, and modular arithmetic: what needs negative eigenvalues (Grazzi et al. 2025)."""

from functools import partial
from typing import Any

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

NEGATIVE: dict[str, Any] = {"kind": "deltanet", "beta_max": 2.0}
MIXERS: list[Any] = [NEGATIVE, "deltanet", "mamba", "gla", "attention"]
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
    tasks = {"kind": "parity", "length": length, "labels": labels}
    test = {"kind": "parity", "min_length": TIMES * length, "length": TIMES * length}
    train = {"lr": [1e-2, 3e-2], **TRAIN[scale]}
    models = [model(mixer, scale, layers) for mixer in MIXERS]
    return [Study(name=f"{NAME}.parity.{scale}", task=tasks, tests=[test], model=models, train=train)]


def _counts(evidence: Evidence) -> Finding:
    return at_least(longer(evidence, NEGATIVE, "deltanet, beta up to 2"), SOLVES)


def _does_not_count(mixer: str, evidence: Evidence) -> Finding:
    return at_most(longer(evidence, mixer, mixer), (1 + SCALED) / 2)


PARITY = Item(
    "parity",
    "Parity",
    "DeltaNet counts modulo 2 on strings four times as long as any it was trained on only where its beta goes up to 2",
    drawn("Parity", "task.kind"),
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


def arithmetic_studies(scale: Scale) -> list[Study]:
    """Modular arithmetic without brackets, tested on expressions four times as long."""
    if scale not in LENGTH:
        return []
    length, modulus = (9, 3) if scale == "tiny" else (39, 5)
    task = {"kind": "modular", "modulus": modulus, "length": length}
    test = {**task, "min_length": TIMES * length - 1, "length": TIMES * length - 1}  # an odd number of tokens
    models = [model(mixer, scale, 2) for mixer in (NEGATIVE, "deltanet", "mamba")]
    train = {"lr": [3e-3, 1e-2], **TRAIN[scale]}
    return [Study(name=f"{NAME}.arithmetic.{scale}", task=task, tests=[test], model=models, train=train)]


def _computes(evidence: Evidence) -> Finding:
    more, less = (
        longer(evidence, NEGATIVE, "deltanet, beta up to 2"),
        longer(evidence, "deltanet", "deltanet, beta up to 1"),
    )
    return exceeds(more, less, by=BETTER)


ARITHMETIC = Item(
    "arithmetic",
    "Modular arithmetic without brackets",
    "with beta up to 2 DeltaNet computes longer expressions than it was trained on better than with beta up to 1",
    drawn("Modular arithmetic without brackets", "task.kind"),
    arithmetic_studies,
    (
        Claim(
            "arithmetic-needs-negative-eigenvalues",
            f"On expressions {TIMES} times as long as the longest trained DeltaNet with beta up to 2 is at least {BETTER} "
            "better than with beta up to 1",
            _computes,
            OWN,
        ),
    ),
    {
        "tiny": "Modulo 3, expressions of 3 to 9 tokens, tested at 35; two layers without MLPs, width 32, 1,500 steps of 64 "
        "fresh rows, 2 rates, 3 seeds.",
        "medium": "Expressions of 3 to 39 tokens, tested at 155; two layers without MLPs, width 128, 3,000 steps of 256, "
        "2 rates, 3 seeds, float32.",
        "paper": "Tested at 155 tokens; two layers without MLPs, width 128, 3 seeds.",
    },
)
