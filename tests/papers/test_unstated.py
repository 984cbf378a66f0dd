"""The claims of the controls, on made-up results: each holds, fails, and stays open where seeds disagree."""

from collections.abc import Callable

import pytest

from recollect.papers.judge import judge
from recollect.papers.okpekpe2025 import PAPER
from recollect.train.spec import RunSpec

Law = Callable[[RunSpec], float]
OPEN = ("needs more seeds", "needs longer training", "best rate at the edge of the grid")
ANSWERS = (("holds",), ("does not hold",), OPEN)


def window(low: float, high: float) -> Law:
    return lambda run: 0.99 if low <= run.train.lr <= high else 0.1


WIDE, NARROW = window(1.5e-3, 6e-2), window(8e-3, 2e-2)


def split(test: Callable[[RunSpec], bool], one: Law | float, other: Law | float) -> Law:
    """One law where a run is such, another where not."""
    laws = [law if callable(law) else (lambda run, value=law: value) for law in (one, other)]
    return lambda run: laws[0](run) if test(run) else laws[1](run)


def blank(run: RunSpec) -> bool:
    return run.task.filler == "blank"  # pyright: ignore[reportAttributeAccessIssue]


def option(name: str, value: object) -> Callable[[RunSpec], bool]:
    return lambda run: run.model.mixer.options.get(name) == value


def convolved(run: RunSpec) -> bool:
    return run.model.mixer.kind == "mamba" and run.model.layers == 1


def centred(run: RunSpec) -> bool:
    return run.model.mixer.options.get("conv_causal") is False


def first_seed(one: Law, other: Law) -> Law:
    return split(lambda run: run.train.seed == 42, one, other)


TWO: dict[str, tuple[Law, ...]] = {
    "filler-widens-mamba": (split(blank, WIDE, NARROW), split(blank, NARROW, WIDE)),
    "filler-leaves-attention": (window(1e-4, 1e-2), split(blank, window(1e-4, 1e-2), window(2e-3, 3e-3))),
    "filler-helps-recurrent": (split(blank, 0.9, 0.5), split(blank, 0.5, 0.5)),
    "filler-helps-without-convolution": (split(blank, 0.9, 0.3), split(blank, 0.3, 0.3)),
    "reading-mamba-s-own-block-twice-no-mlp": (WIDE, split(lambda run: run.model.mlp == "none", NARROW, WIDE)),
    "reading-mamba-s-own-block-twice-no-mlp-pytorch-s-initial-maps": (WIDE, split(option("init", "pytorch"), NARROW, WIDE)),
    "reading-mamba-step-size-bias-zero": (WIDE, split(option("dt_init", "zero"), NARROW, WIDE)),
    "reading-mamba-dropout-0-1": (WIDE, split(lambda run: run.model.dropout_embedding > 0, NARROW, WIDE)),
    "reading-attention-dropout-0-1": (
        window(1e-4, 1e-2), split(lambda run: run.model.dropout_embedding > 0, window(1e-3, 2e-3), window(1e-4, 1e-2)),
    ),
    "reading-s6-needs-convolution": (split(convolved, 0.99, 0.2), split(convolved, 0.5, 0.2), split(convolved, 0.93, 0.2)),
    "reading-v-needs-centred": (split(centred, 0.99, 0.48), split(centred, 0.48, 0.48), split(centred, 0.93, 0.48)),
    "reading-k-either-way": (split(centred, 0.99, 0.99), split(centred, 0.5, 0.99), split(centred, 0.93, 0.99)),
}  # fmt: skip
"""By claim: a law under which it holds, one under which it does not, and where seeds of both decide, one that is nearer."""


@pytest.mark.parametrize("name", TWO)
def test_controls_are_judged(name, made_up):
    item = next(item for item in PAPER.items if name in {claim.name for claim in item.claims})
    claim = next(claim for claim in item.claims if claim.name == name)
    holds, fails, *near = TWO[name]
    for law, answer in zip((holds, fails, first_seed(holds, *near or [fails])), ANSWERS, strict=True):
        verdict = judge(claim, made_up(item, "medium", law))
        assert verdict.answer in answer, (verdict.numbers, verdict.note)
        assert verdict.numbers


@pytest.mark.parametrize(
    ("falls_back", "answers"), [("attention", ("holds", "holds")), ("mamba", ("does not hold", "does not hold"))]
)
def test_when_accuracy_is_read_is_judged_once(falls_back, answers, made_up):
    """Runs of one model reach 100 % half-way, and at high rates fall back."""

    def back(run: RunSpec) -> bool:
        return run.model.mixer.kind == falls_back and run.train.lr > 4e-3

    def law(run: RunSpec) -> float:
        return 0.3 if back(run) else WIDE(run)

    def curve(run: RunSpec) -> list[dict[str, float]]:
        return [{"step": 100.0, "accuracy": WIDE(run)}, {"step": 200.0, "accuracy": law(run)}]

    item = PAPER.item("stopping")
    evidence = made_up(item, "medium", law, curve)
    evidence.runs["best_accuracy"] = [WIDE(run) for run in item.runs("medium")]
    found = [judge(claim, evidence) for claim in item.claims]
    assert [verdict.answer for verdict in found[:2]] == list(answers)
    assert found[2].answer == "holds"
    assert all(verdict.best_epoch is None for verdict in found)
