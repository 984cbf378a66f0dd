"""The best learning rate, from runs whose best rate is known."""

import pandas as pd
import pytest

from recollect.analysis.rates import at_best_rates, best_rate, mean_accuracy


def runs(**accuracy: list[float | None]) -> pd.DataFrame:
    """Runs by model and rate, as `m_1e-3=[accuracy of each seed]`."""
    rows = []
    for name, values in accuracy.items():
        model, lr = name.split("_")
        rows += [{"model": model, "train.lr": float(lr), "accuracy": value, "step": 10 * len(rows)} for value in values]
    return pd.DataFrame(rows)


def test_the_highest_mean_is_the_best_and_what_diverged_adds_nothing():
    assert best_rate(runs(**{"m_1e-3": [0.6, 0.7], "m_1e-2": [1.0, None], "m_1e-1": [0.1, 0.9]})) == 1e-3
    assert mean_accuracy(runs(**{"m_1e-2": [1.0, None, 0.5]})) == pytest.approx(0.5)


def test_of_equal_rates_the_smallest_counts_in_whichever_order_they_come():
    assert best_rate(runs(**{"m_1e-1": [1.0, 0.5], "m_1e-3": [0.5, 1.0], "m_1e-2": [0.75]})) == 1e-3
    assert best_rate(runs(**{"m_1e-1": [None], "m_1e-2": [None]})) == 1e-2, "also where nothing could be measured"


def test_another_rank_may_be_asked_for():
    some = runs(**{"m_1e-2": [0.9, 0.9], "m_1e-3": [0.1, 0.1], "m_1e-4": [0.1]})
    assert best_rate(some, rank=lambda rows: float(rows["accuracy"].mean())) == 1e-4
    assert best_rate(some, rank=lambda rows: (-len(rows), float(rows["accuracy"].mean()))) == 1e-3


def test_each_group_is_taken_at_its_own_best_rate():
    both = runs(**{"a_1e-2": [0.9, 0.8], "a_1e-3": [0.1, 0.2], "b_1e-2": [0.3], "b_1e-3": [0.4, 0.4]})
    kept = at_best_rates(both, ["model"])
    assert list(zip(kept["model"], kept["accuracy"], strict=True)) == [("a", 0.9), ("a", 0.8), ("b", 0.4), ("b", 0.4)]
    assert at_best_rates(both.iloc[:0], ["model"]).empty
