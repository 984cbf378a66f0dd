"""What a verdict means: yes or no only where the whole interval says so, and no only at the claim's own scale."""

import math

import pandas as pd
import pytest

from recollect.papers.judge import (
    Claim,
    Estimate,
    Evidence,
    Finding,
    NotEnough,
    all_of,
    any_of,
    at_least,
    at_most,
    best,
    exceeds,
    judge,
    not_,
    spread,
    where,
    window_of,
    within,
)  # fmt: skip


def estimate(low: float, high: float, seeds: int = 3) -> Estimate:
    return Estimate(f"{low}..{high}", (low + high) / 2, low, high, seeds)


def runs(accuracy: dict[float, list[float]], **columns: object) -> pd.DataFrame:
    """Runs by learning rate, one accuracy a seed."""
    rows = [
        {"train.lr": lr, "train.seed": seed, "accuracy": value, **columns}
        for lr, values in accuracy.items()
        for seed, value in enumerate(values)
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("finding", "answer"),
    [
        (at_least(estimate(0.96, 0.99), 0.95), True),
        (at_least(estimate(0.90, 0.99), 0.95), None),
        (at_least(estimate(0.80, 0.90), 0.95), False),
        (at_least(estimate(0.96, 0.99, seeds=1), 0.95), None),
        (at_most(estimate(0.10, 0.20), 0.35), True),
        (at_most(estimate(0.30, 0.40), 0.35), None),
        (at_most(estimate(0.40, 0.50), 0.35), False),
        (exceeds(estimate(0.0, 0.0), estimate(0.0, 0.0)), False),
        (exceeds(estimate(0.1, 0.2), estimate(0.0, 0.0)), True),
        (exceeds(estimate(1.0, 1.2), estimate(0.4, 0.6), by=0.25), True),
        (exceeds(estimate(1.0, 1.2), estimate(0.4, 0.9), by=0.25), None),
        (exceeds(estimate(1.0, 1.2), estimate(1.0, 1.1), by=0.25), False),
        (exceeds(estimate(1.0, math.inf), estimate(0.4, 0.6), by=0.25), True),
        (exceeds(estimate(1.0, 1.2), estimate(0.4, math.inf), by=0.25), None),
        (within(estimate(0.50, 0.52), estimate(0.48, 0.55), 0.1), True),
        (within(estimate(0.50, 0.52), estimate(0.40, 0.55), 0.1), None),
        (within(estimate(0.50, 0.52), estimate(0.80, 0.85), 0.1), False),
    ],
)
def test_a_question_is_answered_where_the_whole_interval_agrees(finding, answer):
    assert finding.holds is answer
    assert finding.numbers, "the numbers that an answer rests on come with it"


def test_findings_are_joined():
    yes, no, open_ = Finding(True, {"a": "1"}), Finding(False, {"b": "2"}), Finding(None, {"c": "3"}, "why")
    assert all_of(yes, yes).holds is True
    assert all_of(yes, open_).holds is None
    assert all_of(yes, open_, no).holds is False
    assert any_of(no, open_).holds is None
    assert any_of(no, yes, open_).holds is True
    assert any_of(no, no).holds is False
    assert all_of(yes, no, open_).numbers == {"a": "1", "b": "2", "c": "3"}
    assert all_of(open_, open_).note == "why"
    assert all_of(no, open_).note == "", "what left another part open does not explain a clear no"
    assert (not_(yes).holds, not_(no).holds, not_(open_).holds) == (False, True, None)


@pytest.mark.parametrize(
    ("holds", "scale", "answer"),
    [
        (True, "tiny", "holds"), (True, "paper", "holds"), (False, "tiny", "not seen at this scale"),
        (False, "small", "does not hold"), (False, "paper", "does not hold"), (None, "paper", "not enough runs"),
    ],
)  # fmt: skip
def test_only_its_own_scale_refutes_a_claim(holds, scale, answer):
    claim = Claim("c", "says", lambda evidence: Finding(holds), ("small", "paper"))
    verdict = judge(claim, Evidence(scale, runs({1e-3: [0.5, 0.6]}), 2))
    assert verdict.answer == answer
    assert (verdict.runs, verdict.asked, verdict.seeds, verdict.scale) == (2, 2, 2, scale)


def test_missing_runs_leave_a_claim_open():
    claim = Claim("c", "says", lambda evidence: Finding(True))
    some = runs({1e-3: [0.5] * 19})
    assert judge(claim, Evidence("tiny", some, 20)).answer == "holds", "one in twenty may have failed"
    verdict = judge(claim, Evidence("tiny", some, 25))
    assert verdict.answer == "not enough runs"
    assert "19 of 25" in verdict.note

    def needs(evidence: Evidence) -> Finding:
        return at_least(best(evidence.where(model="mamba"), "mamba"), 0.9)

    verdict = judge(Claim("c", "says", needs), Evidence("tiny", runs({1e-3: [0.5]}, model="attention"), 1))
    assert verdict.answer == "not enough runs"
    assert "mamba" in verdict.note


def test_a_claim_about_one_model_waits_for_no_other():
    claim = Claim("c", "says", lambda evidence: Finding(True), about="mamba")
    some, asked = runs({1e-3: [0.5] * 4}, model="mamba"), {"mamba": 4, "rwkv": 4}
    verdict = judge(claim, Evidence("tiny", some, 8, asked))
    assert (verdict.answer, verdict.runs, verdict.asked) == ("holds", 4, 4)
    verdict = judge(claim, Evidence("tiny", some.iloc[:2], 8, asked))
    assert (verdict.answer, verdict.note) == ("not enough runs", "2 of 4 runs are there")
    assert judge(claim, Evidence("tiny", some.iloc[:0], 8, asked)).answer == "not enough runs"


def test_the_best_rate_is_the_one_with_the_highest_mean():
    frame = runs({1e-3: [0.9, 0.9], 1e-2: [1.0, 0.5], 1e-1: [float("nan"), 0.99]})
    found = best(frame, "m")
    assert (found.value, found.low, found.high, found.seeds) == (pytest.approx(0.9), 0.9, 0.9, 2)
    assert best(frame, "m", rates=[1e-2]).value == pytest.approx(0.75)
    with pytest.raises(NotEnough, match="m has ended"):
        best(frame, "m", rates=[0.5])


def test_a_window_that_goes_on_beyond_the_grid_may_be_of_any_width():
    rates = [1e-4, 1e-3, 1e-2, 1e-1]
    closed = window_of(runs(dict(zip(rates, [[0, 0], [1, 1], [1, 1], [0, 0]], strict=True))), "m")
    assert closed.value == pytest.approx(1.1)
    assert closed.high == pytest.approx(1.1)
    open_ = window_of(runs(dict(zip(rates, [[1, 1], [1, 1], [1, 1], [0, 0]], strict=True))), "m")
    assert open_.low == pytest.approx(2.05)
    assert open_.high == math.inf


def test_rows_are_found_by_the_last_word_of_a_column():
    frame = pd.DataFrame({"model": ["mamba", "s6"], "model.width": [32, 64]})
    assert len(where(frame, width=32, model="mamba")) == 1
    with pytest.raises(NotEnough, match="width 64"):
        where(frame, model="mamba", width=64)
    with pytest.raises(NotEnough, match="no run has depth"):
        where(frame, depth=1)


def test_a_spread_leaves_out_what_is_not_a_number():
    assert spread([1.0, 3.0, float("nan")], "x") == Estimate("x", 2.0, 1.0, 3.0, 2)
    with pytest.raises(NotEnough):
        spread([], "x")
