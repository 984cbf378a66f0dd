"""Zoology's claims are judged right on made-up results."""

import pytest

from recollect.inspect.sizes import state_sizes
from recollect.papers.item import evidence_of
from recollect.papers.judge import judge
from recollect.papers.zoology2024 import PAPER
from recollect.train.spec import RunSpec


def mixed(one, other):
    return lambda run: one(run) if run.train.seed == 42 else other(run)


def trio(holds, fails):
    return holds, fails, mixed(holds, fails)


def attention_only(run: RunSpec) -> float:
    return 0.99 if run.model.mixer.kind == "attention" else 0.2


_states: dict[tuple[str, int], int] = {}


def more(run: RunSpec) -> float:
    key = run.model.title, run.model.width
    if key not in _states:
        _states[key] = state_sizes([run])[run.id]
    return min(1.0, _states[key] / 10_000)


def less(run: RunSpec) -> float:
    return 1 - more(run)


CASES = {
    ("fig2", "attention-solves"): trio(lambda run: 0.99, lambda run: 0.5),
    ("fig2", "gated-fall-short"): trio(attention_only, lambda run: 0.99),
    ("tradeoff", "more-state-recalls-better"): trio(more, less),
    ("tradeoff", "attention-leads"): trio(attention_only, lambda run: 1 - attention_only(run)),
}


def test_no_claim_is_left_out():
    assert {(item.name, claim.name) for item in PAPER.items for claim in item.claims} == CASES.keys()


@pytest.mark.parametrize(("item", "name"), CASES)
def test_claims_are_judged(item, name, made_up):
    claim = next(claim for claim in PAPER.item(item).claims if claim.name == name)
    for law, answer in zip(CASES[item, name], ("holds", "not seen at this scale", "needs more seeds"), strict=True):
        verdict = judge(claim, made_up(PAPER.item(item), "tiny", law))
        assert verdict.answer == answer, (verdict.numbers, verdict.note)


@pytest.mark.parametrize("item", PAPER.items, ids=lambda item: item.name)
def test_items_are_drawn_with_and_without_runs(item, made_up):
    for evidence in (made_up(item, "tiny", attention_only), evidence_of(item, "tiny")):
        figure, numbers = item.draw(evidence, item.caption(evidence))
        figure.canvas.draw()
        assert bool(len(numbers)) == bool(len(evidence.runs))


def test_the_paper_scale_is_the_printed_protocol():
    runs = PAPER.item("fig2").runs("paper")
    assert {run.train.epochs for run in runs} == {64}
    assert {run.train.stop_at for run in runs} == {0.99}
    assert len({run.train.lr for run in runs}) == 4
    assert {run.model.mlp for run in runs} == {"identity"}


def test_the_mixture_is_that_of_the_released_configuration():
    run, *others = PAPER.item("tradeoff").runs("paper")
    parts = [(64, 4), (128, 8), (256, 16), (256, 32), (256, 64)]
    tests = [(64, 4), (64, 8), (64, 16), (128, 32), (256, 64), (512, 128), (1024, 256)]
    assert [(part.length, part.pairs) for part in run.task.parts] == parts
    assert run.task.weights == (5, 1, 1, 1, 1)
    assert [(test.length, test.pairs) for test in run.tests] == tests
    assert {(task.filler, task.variant) for task in (*run.task.parts, *run.tests)} == {("random", "zoology")}
    assert (run.train.epochs, run.train.batch, run.train.train_rows, run.train.test_rows) == (32, 256, 180_000, 1000)
    rates = sorted({other.train.lr for other in others})
    assert rates == pytest.approx([10**-3, 10**-2.5, 10**-2, 10**-1.5])


def test_the_tradeoff_reads_the_mean_over_the_tests(made_up):
    item = PAPER.item("tradeoff")
    evidence = made_up(item, "tiny", attention_only)
    for i, accuracy in enumerate((0.2, 0.4, 0.6, 0.8)):
        evidence.runs[f"final.tests.{i}.accuracy"] = accuracy
    _, table = item.draw(evidence, "")
    assert table["mean"].tolist() == pytest.approx([0.5] * len(table))
