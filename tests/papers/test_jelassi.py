"""Every claim of Jelassi et al. is judged right on made-up results: where it holds, where it fails, and where seeds disagree."""

import math
from collections.abc import Callable

import pytest

from recollect.papers.item import Item, evidence_of
from recollect.papers.jelassi2024 import LONGER, PAPER, TITLES, named
from recollect.papers.judge import Evidence, judge
from recollect.tasks.ngram import NGram
from recollect.train.spec import RunSpec

World = Callable[[str, RunSpec], tuple[float, float]]
"""From a model's name and a run: examples until 95 %, and accuracy on longer strings."""
EVERY = 1600


def order(*models: str) -> World:
    """Models reach it one after the other; those not named never do."""
    return lambda name, run: (EVERY * (1 + models.index(name)) if name in models else math.inf, 0.5)


def furthest(model: str) -> World:
    return lambda name, run: (math.inf, 0.9 if name == model else 0.3)


def by_query(suffix: World, prefix: World) -> World:
    def world(name: str, run: RunSpec) -> tuple[float, float]:
        return (suffix if isinstance(run.task, NGram) and run.task.query == "suffix" else prefix)(name, run)

    return world


def mixed(one: World, other: World) -> World:
    return lambda name, run: (one if run.train.seed == 1 else other)(name, run)


CASES: dict[tuple[str, str], tuple[World, World]] = {
    ("copy", "transformers-first"): (order("rotary", "hard_alibi", "mamba"), order("mamba", "lstm", "rotary", "hard_alibi")),
    ("lengths", "hard-alibi-furthest"): (furthest("hard_alibi"), furthest("mamba")),
    ("ngram", "mamba-needs-more"): (order("rotary", "mamba"), order("mamba", "rotary")),
    ("ngram", "prefix-closes-the-gap"): (
        by_query(order("rotary", "none", "lstm", "mamba"), order("rotary", "mamba")),
        by_query(order("rotary", "mamba"), order("rotary", "none", "lstm", "mamba")),
    ),
}  # fmt: skip
"""By item and claim: a world in which it holds, and one in which it fails; with seeds from both it is open."""


def name_of(run: RunSpec) -> str:
    return run.model.positions if run.model.mixer.kind == "attention" else run.model.mixer.kind


@pytest.fixture
def made(made_up) -> Callable[[Item, World], Evidence]:
    def evidence(item: Item, world: World) -> Evidence:
        def curve(run: RunSpec) -> list[dict[str, float]]:
            time = world(name_of(run), run)[0]
            seen = range(EVERY, 32 * run.train.steps + 1, EVERY)
            return [{"step": n // 32, "examples": n, "accuracy": 0.97 if n >= time else 0.1} for n in seen]

        found = made_up(item, "tiny", lambda run: 0.9, curve)
        runs = {run.id: run for run in item.runs("tiny")}
        for i in range(len(LONGER["tiny"])):
            found.runs[f"final.tests.{i}.accuracy"] = [world(name_of(runs[id]), runs[id])[1] for id in found.runs["id"]]
        return found

    return evidence


@pytest.mark.parametrize("case", CASES, ids="/".join)
def test_a_claim_holds_fails_or_stays_open(case, made):
    item, (holds, fails) = PAPER.item(case[0]), CASES[case]
    claim = next(claim for claim in item.claims if claim.name == case[1])
    answers = [judge(claim, made(item, world)).answer for world in (holds, fails, mixed(holds, fails))]
    assert answers[:2] == ["holds", "not seen at this scale"]
    assert answers[2] in ("needs more seeds", "needs longer training")


def test_every_claim_has_a_case():
    assert {(item.name, claim.name) for item in PAPER.items for claim in item.claims} == set(CASES)


@pytest.mark.parametrize("item", PAPER.items, ids=lambda item: item.name)
def test_an_item_is_drawn_with_all_runs_and_with_none(item, made):
    whole = made(item, order("rotary", "mamba"))
    drawn = [item.draw(evidence, "") for evidence in (whole, evidence_of(item, "tiny"))]
    assert [len(table) > 0 for _, table in drawn] == [True, False]
    assert all(figure.axes for figure, _ in drawn)
    assert set(named(whole)["name"]) <= set(TITLES)


@pytest.mark.parametrize("scale", ["tiny", "small", "paper"])
def test_every_scale_has_its_runs(scale):
    for item in PAPER.items:
        runs = item.runs(scale)
        assert {name_of(run) for run in runs} <= set(TITLES)
        assert len({run.train.seed for run in runs}) >= 2
