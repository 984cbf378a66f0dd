"""The claims on state tracking are judged right on made-up results, on the rows that they speak of."""

import pytest

from recollect.papers.item import evidence_of
from recollect.papers.judge import judge
from recollect.papers.statetracking2025 import PAPER


def longer(made_up, item, law, trained=None):
    """Evidence whose accuracy on longer rows follows a law; on rows of the trained length all is right, or `trained`."""
    evidence = made_up(item, "tiny", trained or (lambda run: 1.0))
    values = {run.id: law(run) for run in item.runs("tiny")}
    evidence.runs["final.tests.0.accuracy"] = [values[id] for id in evidence.runs["id"]]
    evidence.runs["final.valid"] = 1.0
    return evidence


def negative(run) -> bool:
    return run.model.mixer.kind == "deltanet" and run.model.mixer.options.get("beta_max") == 2.0


def two_steps(run) -> bool:
    options = run.model.mixer.options
    return run.model.mixer.kind == "deltaproduct" and options.get("steps", 2) == 2 and options.get("beta_max", 2) == 2


def mixed(yes, no):
    return lambda run: yes(run) if run.train.seed == 42 else no(run)


CASES = {
    ("parity", "negative-eigenvalues-count"): (lambda run: 0.99, lambda run: 0.9),
    **{
        ("parity", f"{mixer}-does-not-count"): (lambda run: 0.5 + 0.49 * negative(run), lambda run: 0.9)
        for mixer in ("deltanet", "mamba", "gla", "attention")
    },
    ("arithmetic", "arithmetic-needs-negative-eigenvalues"): (lambda run: 0.4 + 0.5 * negative(run), lambda run: 0.9),
    ("groups", "s3-holds-beyond"): (lambda run: 0.99, lambda run: 0.9),
    ("groups", "s3-needs-steps"): (lambda run: 0.2 + 0.7 * two_steps(run), lambda run: 0.9),
    ("groups", "s3-needs-negative-eigenvalues"): (lambda run: 0.2 + 0.7 * two_steps(run), lambda run: 0.9),
    ("groups", "attention-fails-beyond"): (lambda run: 0.2, lambda run: 0.9),
}


@pytest.mark.parametrize(("item", "name"), CASES)
def test_claims_about_longer_rows_are_judged(item, name, made_up):
    item = PAPER.item(item)
    claim = next(claim for claim in item.claims if claim.name == name)
    yes, no = CASES[item.name, name]
    for law, answer in ((yes, "holds"), (no, "not seen at this scale"), (mixed(yes, no), "needs more seeds")):
        verdict = judge(claim, longer(made_up, item, law))
        assert verdict.answer == answer, (verdict.numbers, verdict.note)


def test_s3_is_solved_at_the_trained_length_whatever_comes_after(made_up):
    item = PAPER.item("groups")
    claim = PAPER.claims["solves-s3"]
    assert judge(claim, longer(made_up, item, lambda run: 0.2)).answer == "holds"
    evidence = longer(made_up, item, lambda run: 1.0, trained=lambda run: 0.5)
    assert judge(claim, evidence).answer == "not seen at this scale"


def test_groups_that_a_scale_does_not_have_are_left_open(made_up):
    item = PAPER.item("groups")
    evidence = longer(made_up, item, lambda run: 1.0)
    others = [claim for claim in item.claims if claim.name.split("-")[-1] in ("s4", "a5", "s5")]
    assert len(others) == 3
    assert {judge(claim, evidence).answer for claim in others} == {"not seen at this scale"}


def test_the_rate_is_the_one_that_is_best_on_longer_rows(made_up):
    item = PAPER.item("parity")
    evidence = longer(made_up, item, lambda run: 0.99 if run.train.lr == 3e-2 else 0.5)
    assert judge(PAPER.claims["negative-eigenvalues-count"], evidence).answer == "holds"


@pytest.mark.parametrize("item", PAPER.items, ids=lambda item: item.name)
def test_items_are_drawn_with_and_without_runs(item, made_up):
    for evidence in (longer(made_up, item, lambda run: 0.7), evidence_of(item, "tiny")):
        figure, numbers = item.draw(evidence, item.caption(evidence))
        figure.canvas.draw()
        assert bool(len(numbers)) == bool(len(evidence.runs))
    assert item.runs("small") == []


def test_the_scales_have_the_papers_settings():
    groups = PAPER.item("groups").runs("paper")
    assert {(run.task.length, run.tests[0].length, run.tests[0].after) for run in groups} == {(128, 512, 128)}
    assert {run.task.group for run in groups} == {"s3", "s4", "a5", "s5"}
    assert {(run.train.epochs, run.train.train_rows, run.train.batch) for run in groups} == {(100, 100_000, 2048)}
    parity = PAPER.item("parity").runs("paper")
    assert {(run.task.min_length, run.task.length, run.train.steps) for run in parity} == {(3, 40, 20_000)}
