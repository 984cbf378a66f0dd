"""What a verdict means: yes or no only where the whole interval says so, and no only in the claim's own setting."""

import math

import pandas as pd
import pytest

from recollect.papers import PAPERS
from recollect.papers.estimates import Estimate, NotEnough, best, mean_of, share_of, window_of
from recollect.papers.judge import ANSWERS, STRENGTH, Claim, Evidence, claim, claims, judge, one_per_claim, where
from recollect.papers.questions import (
    Finding,
    all_of,
    any_of,
    at_least,
    at_most,
    between,
    every,
    exceeds,
    few,
    most,
    not_,
    within,
)

EDGE = "best rate at the edge of the grid"


def estimate(low: float, high: float, seeds: int = 3, **fields) -> Estimate:
    return Estimate(f"{low}..{high}", (low + high) / 2, low, high, seeds, **fields)


def runs(accuracy: dict[float, list[float]], **columns: object) -> pd.DataFrame:
    """Runs by learning rate, one accuracy per seed."""
    rows = [
        {"train.lr": lr, "train.seed": seed, "accuracy": value, "model": "m", **columns}
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
        (between(estimate(0.2, 0.3), 0.125, 0.5), True),
        (between(estimate(0.05, 0.1), 0.125, 0.5), False),
        (exceeds(estimate(0.0, 0.0), estimate(0.0, 0.0)), False),
        (exceeds(estimate(0.1, 0.2), estimate(0.0, 0.0)), True),
        (exceeds(estimate(1.0, 1.2), estimate(0.4, 0.6), by=0.25), True),
        (exceeds(estimate(1.0, 1.2), estimate(0.4, 1.3), by=0.25), None),
        (exceeds(estimate(1.0, 1.2), estimate(1.0, 1.1), by=0.25), False),
        (exceeds(estimate(0.0, 1.0), estimate(-1.0, 0.0), by=0.25), True),  # 1 apart, each end by 0.5: 0.29 .. 1.71
        (within(estimate(0.50, 0.52), estimate(0.48, 0.55), 0.1), True),
        (within(estimate(0.50, 0.52), estimate(0.35, 0.55), 0.1), None),
        (within(estimate(0.50, 0.52), estimate(0.80, 0.85), 0.1), False),
        (most(share_of([True] * 3, "s")), True),
        (most(share_of([True, True, False], "s")), None),
        (few(share_of([True, True, True], "s")), False),
        (few(share_of([False] * 5, "s")), True),
    ],
)
def test_a_question_is_answered_where_the_whole_interval_agrees(finding, answer):
    assert finding.holds is answer
    assert finding.numbers, "the numbers that an answer rests on come with it"


def test_what_could_still_rise_is_no_reason_for_a_no_but_may_be_enough_for_a_yes():
    cut = estimate(0.2, 0.3, needs="needs longer training", could_rise=True)
    assert at_least(cut, 0.1).holds
    assert (at_least(cut, 0.9).holds, at_least(cut, 0.9).needs) == (None, "needs longer training")
    assert at_most(cut, 0.1).holds is False
    assert (at_most(cut, 0.9).holds, at_most(cut, 0.9).needs) == (None, "needs longer training")
    assert exceeds(estimate(0.9, 0.95), cut, by=0.1).holds is None, "the other may be higher"
    assert exceeds(cut, estimate(0.0, 0.1)).holds is True
    late = all_of(at_least(estimate(0.8, 0.99), 0.9), at_least(cut, 0.9))
    assert late.needs == "needs longer training", "more seeds would not help before that"


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


def test_a_decided_part_beats_one_that_is_missing():
    def missing() -> Finding:
        raise NotEnough("no run of mamba has ended")

    assert all_of(missing, Finding(False)).holds is False
    assert any_of(missing, Finding(True)).holds is True
    open_ = all_of(missing, Finding(True))
    assert (open_.holds, open_.needs, open_.note) == (None, "runs are missing", "no run of mamba has ended")
    found = every(("mamba", "rope"), lambda name: missing() if name == "mamba" else Finding(False))
    assert found.holds is False
    with pytest.raises(NotEnough):
        every((), lambda name: Finding(True))


@pytest.mark.parametrize(
    ("holds", "scale", "answer"),
    [
        (True, "tiny", "holds"), (True, "paper", "holds"), (False, "tiny", "not seen at this scale"),
        (False, "small", "does not hold"), (False, "paper", "does not hold"), (None, "paper", "needs more seeds"),
    ],
)  # fmt: skip
def test_only_its_own_setting_refutes_a_claim(holds, scale, answer):
    by_scale = Claim("c", "says", lambda evidence: Finding(holds), ("small", "medium", "paper"))
    by_setting = Claim("c", "says", lambda evidence: Finding(holds), lambda evidence: evidence.scale != "tiny")
    for one in (by_scale, by_setting):
        verdict = judge(one, Evidence(scale, runs({1e-3: [0.5, 0.6]}), 2))
        assert verdict.answer == answer
        assert (verdict.runs, verdict.asked, verdict.seeds, verdict.scale) == (2, 2, 2, scale)


def test_missing_runs_leave_open_what_rests_on_them():
    def solves(name: str):
        return lambda evidence: at_least(evidence.best(evidence.where(model=name), name), 0.9)

    there = pd.concat([runs({1e-3: [0.99] * 4}, model="mamba"), runs({1e-3: [0.2] * 2}, model="rwkv")])
    evidence = Evidence("tiny", there, 8, {"mamba": 4, "rwkv": 4})
    assert judge(Claim("c", "says", solves("mamba")), evidence).answer == "holds", "another model's runs do not matter"
    verdict = judge(Claim("c", "says", solves("rwkv")), evidence)
    assert (verdict.answer, verdict.note) == ("runs are missing", "2 of 4 runs of rwkv have ended")
    verdict = judge(Claim("c", "says", solves("h3")), evidence)
    assert verdict.answer == "runs are missing"
    assert "h3" in verdict.note
    nothing = judge(Claim("c", "says", solves("h3")), Evidence("tiny", there.iloc[:0], 8, {"mamba": 4, "rwkv": 4}))
    assert (nothing.answer, nothing.note) == ("runs are missing", "0 of 8 runs have ended")
    assert judge(Claim("c", "says", solves("mamba")), Evidence("tiny", there, 20)).note == "6 of 20 runs have ended"


def test_a_claim_waits_only_for_the_runs_that_it_is_about():
    rates = {1e-3: [0.9, 0.9], 1e-2: [0.9, 0.9]}
    there = runs(rates, **{"model": "mamba", "train.optimiser": "adamw"})
    specified = pd.concat([there, there.assign(**{"train.optimiser": "muon"})])
    evidence = Evidence("tiny", there, len(specified), {"mamba": len(specified)}, specified)
    assert len(evidence.where(model="mamba", optimiser="adamw")) == 4
    with pytest.raises(NotEnough, match="no run of model mamba, optimiser muon has ended"):
        evidence.where(model="mamba", optimiser="muon")
    with pytest.raises(NotEnough, match="4 of 8 runs of model mamba have ended"):
        evidence.where(model="mamba")


def test_the_final_epoch_decides_and_the_best_is_shown():
    claim = Claim("c", "says", lambda evidence: at_least(evidence.best(evidence.runs, "m"), 0.9), ("tiny",))
    frame = runs({1e-3: [0.5, 0.51, 0.52]}).assign(best_accuracy=[0.99, 0.98, 0.99])
    verdict = judge(claim, Evidence("tiny", frame, 3))
    assert (verdict.answer, verdict.best_epoch) == ("does not hold", "holds")
    assert verdict.numbers["m"].startswith("0.51 (")
    assert "best epoch 0.987 (" in verdict.numbers["m"]
    assert verdict.note == "the final epoch decides; by the best epoch: holds"
    same = judge(claim, Evidence("tiny", frame.assign(best_accuracy=frame["accuracy"]), 3))
    assert (same.best_epoch, same.note) == (None, "")
    assert "best epoch" not in same.numbers["m"]


def test_the_best_rate_is_the_one_with_the_highest_mean():
    frame = runs({1e-3: [0.9, 0.9], 1e-2: [1.0, 0.5], 1e-1: [float("nan"), 0.99]})
    found = best(frame, "m")
    assert (found.value, found.seeds) == (pytest.approx(0.9), 2)
    assert 0.85 < found.low < 0.9 < found.high < 0.95, "seeds that agree still have the noise of a test"
    assert best(frame, "m", rates=[1e-2]).value == pytest.approx(0.75)
    with pytest.raises(NotEnough, match="m has ended"):
        best(frame, "m", rates=[0.5])


def test_a_best_rate_at_the_edge_of_the_grid_leaves_what_is_beyond_it_open():
    edge = best(runs({1e-3: [0.3, 0.3], 1e-2: [0.4, 0.4], 1e-1: [0.6, 0.6]}), "m")
    assert (edge.could_rise, edge.needs) == (True, EDGE)
    assert not best(runs({1e-3: [0.3, 0.3], 1e-2: [0.6, 0.6], 1e-1: [0.4, 0.4]}), "m").could_rise
    assert not best(runs({1e-3: [0.25, 0.25], 1e-2: [0.25, 0.25], 1e-1: [0.251, 0.251]}), "m").could_rise, "all alike"
    assert not best(runs({1e-3: [0.3, 0.3], 1e-2: [0.4, 0.4], 1e-1: [0.99, 0.99]}), "m").could_rise, "it solves"
    assert not best(runs({1e-3: [0.6, 0.6]}), "m").could_rise, "one rate is no grid"


def test_runs_that_were_at_their_best_when_they_ended_need_longer_training():
    frame = runs({1e-3: [0.5, 0.6]}, status="finished", step=100, best_step=95)
    assert best(frame, "m").needs == "needs longer training"
    assert not best(frame.assign(best_step=[95, 60]), "m").could_rise
    assert not best(frame.assign(status="solved"), "m").could_rise


def test_a_window_is_the_mean_of_those_of_the_seeds():
    rates = [1e-4, 1e-3, 1e-2, 1e-1]
    closed = window_of(runs(dict(zip(rates, [[0, 0], [1, 1], [1, 0], [0, 0]], strict=True))), "m")
    assert closed.value == pytest.approx((1.1 + 0.1) / 2)
    assert closed.detail == "mean curve 0.15", "that of the mean curve shrinks where one seed fails"
    assert 0 <= closed.low < closed.value < closed.high
    nothing = window_of(runs(dict(zip(rates, [[0, 0]] * 4, strict=True))), "m")
    assert (nothing.value, nothing.low, nothing.high) == (0, 0, 0)


def test_a_window_that_goes_on_beyond_the_grid_may_be_of_any_width():
    rates = [1e-4, 1e-3, 1e-2, 1e-1]
    open_ = window_of(runs(dict(zip(rates, [[1, 1], [1, 1], [1, 1], [0, 0]], strict=True))), "m")
    assert open_.low == pytest.approx(2.05)
    assert (open_.reach[2], open_.needs) == (math.inf, EDGE)


def test_rows_are_found_by_the_last_word_of_a_column():
    frame = pd.DataFrame({"model": ["mamba", "s6"], "model.width": [32, 64]})
    assert len(where(frame, width=32, model="mamba")) == 1
    with pytest.raises(NotEnough, match="width 64"):
        where(frame, model="mamba", width=64)
    with pytest.raises(NotEnough, match="no run has depth"):
        where(frame, depth=1)


def test_a_mean_leaves_out_what_is_not_a_number():
    found = mean_of([1.0, 3.0, float("nan")], "x")
    assert (found.value, found.seeds) == (2.0, 2)
    assert mean_of([1.0, math.inf], "x").high == math.inf
    with pytest.raises(NotEnough):
        mean_of([], "x")


def test_of_several_verdicts_on_one_claim_the_strongest_counts():
    def record(claim: str, answer: str, paper: str = "p") -> dict:
        return {"paper": paper, "claim": claim, "answer": answer}

    records = [
        record("a", "needs more seeds"),
        record("a", "holds"),
        record("b", "runs are missing"),
        record("a", "holds", "q"),
    ]
    assert [one["answer"] for one in one_per_claim(records)] == ["holds", "runs are missing", "holds"]
    assert one_per_claim([record("a", "holds"), record("a", "does not hold")])[0]["answer"] == "does not hold"
    assert set(STRENGTH) == set(ANSWERS)


@pytest.mark.parametrize("name", ["okpekpe2025", "retrievit2026", "zoology2024", "jelassi2024"])
def test_one_name_is_one_claim(name):
    paper = PAPERS.find(name)
    for item in paper.items:
        for one in item.claims:
            assert paper.claims[one.name] is one, f"{item.name} says something else under the name {one.name}"
    words = [one.says for one in paper.claims.values()]
    assert len(set(words)) == len(words), "two claims that say the same are one"


LEAST = 0.25
NARROW = {"mamba": "Mamba", "hyena": "Hyena"}


def test_a_claim_is_made_of_a_test_whose_docstring_is_its_sentence():
    @claim("solves", ("small",))
    def solves(evidence: Evidence) -> Finding:
        """Attention reaches {LEAST:g} in every
        setting"""
        return Finding(True, {"scale": evidence.scale})

    evidence = Evidence("tiny", pd.DataFrame(), 0)
    assert (solves.name, solves.says, solves.decided_at) == (
        "solves",
        "Attention reaches 0.25 in every setting",
        ("small",),
    )
    assert solves.test(evidence).numbers == {"scale": "tiny"}


def test_claims_about_several_models_are_made_of_one_test():
    @claims("{name}-is-narrow", NARROW)
    def narrow(name: str, evidence: Evidence) -> Finding:
        """{words} ({name}) has a window of at most {LEAST} decades"""
        return Finding(name == "mamba")

    assert [one.name for one in narrow] == ["mamba-is-narrow", "hyena-is-narrow"]
    assert narrow[1].says == "Hyena (hyena) has a window of at most 0.25 decades"
    assert [one.test(Evidence("tiny", pd.DataFrame(), 0)).holds for one in narrow] == [True, False]
