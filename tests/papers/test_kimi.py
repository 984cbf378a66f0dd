"""Kimi Linear's claims are judged right on made-up results."""

import pytest

from recollect.papers.item import evidence_of
from recollect.papers.judge import judge
from recollect.papers.kimi2025 import PAPER


def law(kda: float, others: float):
    return lambda run: kda if run.model.mixer.kind == "kda" else others


@pytest.mark.parametrize("item", PAPER.items, ids=lambda item: item.name)
def test_claims_are_judged_and_items_drawn(item, made_up):
    for rule, answer in ((law(0.9, 0.5), "holds"), (law(0.5, 0.9), "not seen at this scale")):
        evidence = made_up(item, "tiny", rule)
        assert {judge(claim, evidence).answer for claim in item.claims} == {answer}
    for drawn in (made_up(item, "tiny", law(0.9, 0.5)), evidence_of(item, "tiny")):
        figure, numbers = item.draw(drawn, item.caption(drawn))
        figure.canvas.draw()
        assert len(numbers) == (6 if len(drawn.runs) else 0)


def test_the_paper_scale_has_its_lengths_rates_and_steps():
    for item in PAPER.items:
        runs = item.runs("paper")
        assert {run.train.steps for run in runs} == {20_000}
        assert {run.train.lr for run in runs} == {5e-5, 1e-4, 5e-4, 1e-3}
        assert {run.model.width for run in runs} == {256}
        for asked, length in zip((256, 512, 1024, 2048), sorted({run.task.row_length for run in runs}), strict=True):
            assert asked - 2 <= length <= asked
