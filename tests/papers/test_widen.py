"""Our own claims about what widens the window are judged right on made-up results."""

import math
from collections.abc import Callable

import pandas as pd
import pytest

from recollect.papers.judge import Evidence
from recollect.papers.widen2026 import PAPER
from recollect.papers.widen2026.settings import rates
from recollect.train.spec import RunSpec

Law = Callable[[RunSpec], float]


def near(run: RunSpec, decades: float) -> float:
    """1 at rates within so many decades of the middle of the optimiser's grid, else 0."""
    middle = {"lion": -3.5, "sgd": -0.5}.get(run.train.optimiser, -2.5)
    return float(abs(math.log10(run.train.lr) - middle) <= decades + 1e-6)


def wide_if(condition: Callable[[RunSpec], bool]) -> Law:
    return lambda run: near(run, 1.0 if condition(run) else 0.0)


def reaches(run: RunSpec, const: float) -> float:
    """1 where rate x steps is at least so much, up to 3e-2."""
    return float(run.train.lr <= 3.2e-2 and run.train.lr * run.train.total_steps >= const)


def peak(run: RunSpec, shift: float) -> float:
    """Highest at a rate that falls by so many decades with each doubling of the width."""
    return 1 - abs(math.log10(run.train.lr) + 1.5 + shift * math.log2(run.model.width / 16)) / 10


CASES: dict[tuple[str, str], tuple[Law, Law]] = {
    **{
        ("optimisers", f"{name}-widens"): (
            wide_if(lambda run, name=name: run.train.optimiser == name), wide_if(lambda run: run.train.optimiser == "adamw")
        )
        for name in ("muon", "lion", "schedule_free")
    },
    ("groups", "slower"): (
        wide_if(lambda run: next(iter(run.train.groups.values()))["lr"] == 0.1), lambda run: near(run, 1.0)
    ),
    ("clipping", "clipping-widens"): (wide_if(lambda run: run.train.clip == 1), lambda run: near(run, 1.0)),
    ("clipping", "no-decay-widens"): (
        wide_if(lambda run: run.train.weight_decay == 0), wide_if(lambda run: run.train.weight_decay > 0)
    ),
    ("factors", "warm-up-widens"): (wide_if(lambda run: run.train.warmup == 0.3), lambda run: near(run, 1.0)),
    ("factors", "small-batches-widen"): (
        wide_if(lambda run: run.train.batch == 8), wide_if(lambda run: run.train.batch == 128)
    ),
    ("factors", "wsd-widens"): (
        wide_if(lambda run: run.train.schedule == "wsd"), wide_if(lambda run: run.train.schedule == "cosine")
    ),
    ("lengths", "longer-widens"): (wide_if(lambda run: run.train.steps == 4000), lambda run: near(run, 1.0)),
    ("lengths", "edge-follows-steps"): (lambda run: reaches(run, 3.15), lambda run: near(run, 1.0)),
    ("widths", "mup-keeps"): (lambda run: peak(run, 0.0), lambda run: peak(run, 1.0)),
    ("widths", "standard-moves"): (lambda run: peak(run, 1.0), lambda run: peak(run, 0.0)),
}  # fmt: skip
"""By item and beginning of a claim's name: results by which it holds, and by which it does not."""


def claims(item: str, start: str):
    return [claim for claim in PAPER.item(item).claims if claim.name.startswith(start)]


def test_no_claim_is_left_out():
    listed = {(item.name, claim.name) for item in PAPER.items for claim in item.claims}
    tested = {
        (item, claim.name) for item, start in [*CASES, ("clipping", "falls-back")] for claim in claims(item, start)
    }
    assert listed == tested


@pytest.mark.parametrize(("item", "start"), CASES)
def test_claims_are_judged(item, start, made_up):
    yes, no = CASES[item, start]
    for law, answer in ((yes, True), (no, False), (lambda run: (yes if run.train.seed == 42 else no)(run), None)):
        evidence = made_up(PAPER.item(item), "tiny", law)
        for claim in claims(item, start):
            finding = claim.test(evidence)
            assert finding.holds is answer, (claim.name, finding.numbers, finding.note)


def test_runs_fall_back_where_their_best_checkpoints_have_the_wider_window(made_up):
    fell = made_up(PAPER.item("clipping"), "tiny", lambda run: near(run, 0.0))
    best = made_up(PAPER.item("clipping"), "tiny", lambda run: near(run, 1.0)).runs["accuracy"]
    for column, answer in ((best, True), (fell.runs["accuracy"], False)):
        evidence = Evidence("tiny", fell.runs.assign(best_accuracy=column), fell.asked, fell.asked_of)
        assert [claim.test(evidence).holds for claim in claims("clipping", "falls-back")] == [answer] * 2


@pytest.mark.parametrize("item", PAPER.items, ids=lambda item: item.name)
def test_items_are_drawn_with_and_without_runs(item, made_up):
    for evidence in (made_up(item, "tiny", lambda run: near(run, 1.0)), Evidence("tiny", pd.DataFrame(), 4)):
        figure, numbers = item.draw(evidence, item.caption(evidence))
        figure.canvas.draw()
        assert bool(len(numbers)) == bool(len(evidence.runs))


def test_the_base_is_the_one_stated():
    (run, *_), every = PAPER.item("clipping").runs("paper"), PAPER.item("clipping").runs("paper")
    assert (run.task.length, run.task.pairs, run.task.vocab, run.task.filler) == (64, 4, 8192, "blank")
    assert (run.model.width, run.model.layers, run.train.batch, run.train.epochs) == (64, 2, 512, 25)
    assert len({spec.shape for spec in every}) == 2, "clipping by weight decay is one cohort per mixer"
    assert len(every) == 2 * 6 * 10 * 3
    assert rates("paper")[1::2] == [1e-4, 1e-3, 1e-2, 1e-1, 1.0]


def test_each_optimiser_has_rates_of_its_own():
    tried = {name: set() for name in ("adamw", "muon", "lion", "schedule_free", "sgd")}
    for run in PAPER.item("optimisers").runs("medium"):
        tried[run.train.optimiser].add(run.train.lr)
        assert (run.train.schedule == "constant") is (run.train.optimiser == "schedule_free")
    assert tried["adamw"] == tried["muon"] == tried["schedule_free"]
    assert [max(tried[name]) for name in ("lion", "adamw", "sgd")] == [0.1, 1.0, 100.0]
