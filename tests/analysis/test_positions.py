"""Accuracy by target position, from slices that were made with an order of learning."""

import math

import numpy as np
import pandas as pd
import pytest

from recollect.analysis.positions import position_matrix, serial_position

POSITIONS = 20


def slices(learnt_at, steps=range(10, 101, 10), run="a", count=4) -> pd.DataFrame:
    """A run in which position p is answered from step `learnt_at(p)` on."""
    return pd.DataFrame(
        {"run": run, "step": step, "tag": "position", "value": p, "count": count,
         "right": count if step >= learnt_at(p) else 0}
        for step in steps for p in range(POSITIONS)
    )  # fmt: skip


def ends_first(p: int) -> float:
    return 10 + 8 * min(p, POSITIONS - 1 - p)


def test_a_matrix_of_progress_and_position():
    matrix = position_matrix(slices(ends_first), points=10)
    assert matrix.shape == (10, POSITIONS)
    assert list(matrix.index) == pytest.approx(np.arange(1, 11) / 10)
    assert list(matrix.iloc[0]) == [1] + [0] * 18 + [1], "after a tenth only the very ends are known"
    assert (matrix.iloc[-1] == 1).all()


def test_runs_of_different_lengths_are_taken_together_by_their_own_progress():
    long = slices(lambda p: 10 * ends_first(p), steps=range(100, 1001, 100), run="b", count=12)
    both = position_matrix(pd.concat([slices(ends_first), long]), points=10)
    assert (both == position_matrix(slices(ends_first), points=10)).all(axis=None)
    never = slices(lambda p: 1e9, run="c", count=12)
    assert position_matrix(pd.concat([slices(ends_first), never]), points=10).iloc[-1, 0] == 4 / 16


def test_a_position_nobody_asked_for_is_not_known():
    seen = slices(ends_first)
    matrix = position_matrix(seen[seen["value"] != 3], points=5)
    assert matrix[3].isna().all()
    assert matrix.drop(columns=3).notna().all(axis=None)
    assert position_matrix(pd.DataFrame(), points=5).shape == (5, 0)


def test_ends_first_and_all_at_once():
    found = serial_position(position_matrix(slices(ends_first), points=10))
    assert (found.head_lead, found.tail_lead) == (pytest.approx(1.0), pytest.approx(1.0))
    assert found.rise == pytest.approx(0.7), "from the ends to the middle"
    at_once = serial_position(position_matrix(slices(lambda p: 70), points=10))
    assert (at_once.head_lead, at_once.tail_lead) == (0.0, 0.0)
    assert at_once.rise == 0.0, "all positions in one step"


def test_the_last_alone_is_not_both_ends():
    found = serial_position(position_matrix(slices(lambda p: 10 if p > 15 else math.inf), points=10))
    assert (found.head_lead, found.tail_lead) == (0.0, 1.0)
