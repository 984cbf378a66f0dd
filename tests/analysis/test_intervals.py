"""Intervals over seeds, on values whose interval is known."""

import math

import numpy as np
import pytest

from recollect.analysis.intervals import bootstrap, mean_curve


def of_mean(values: list[float]) -> tuple[float, float]:
    return bootstrap(len(values), lambda draw: float(np.array(values)[draw].mean()))


def test_three_seeds_have_the_interval_from_the_lowest_to_the_highest():
    low, high = of_mean([0.5, 0.7, 0.9])
    assert low == pytest.approx(0.5), "1 draw in 27 has the lowest seed three times, more than 2.5 %"
    assert high == pytest.approx(0.9)


def test_seeds_that_agree_leave_no_interval_and_one_seed_gives_none():
    assert of_mean([0.4] * 5) == (pytest.approx(0.4), pytest.approx(0.4))
    assert all(map(math.isnan, of_mean([0.4])))


def test_a_mean_curve_leaves_out_rates_at_which_no_seed_was_tried():
    rates, values = np.array([1e-3, 1e-2]), np.array([[0.2, 0.4], [np.nan, 0.8]])
    for draw, x, y in (([0, 1], [1e-3, 1e-2], [0.3, 0.8]), ([0], [1e-3], [0.2]), ([1], [1e-3, 1e-2], [0.4, 0.8])):
        found = mean_curve(rates, values, draw)
        assert (list(found[0]), list(found[1])) == (x, pytest.approx(y))


def test_the_interval_of_a_mean_is_two_standard_errors_either_way():
    values = np.random.default_rng(1).normal(0, 1, 100)
    low, high = bootstrap(100, lambda draw: float(values[draw].mean()))
    error = values.std() / 10
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.2 * error)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.2 * error)
    assert (low, high) == bootstrap(100, lambda draw: float(values[draw].mean())), "asked again, it is the same"
