"""Intervals over seeds, on values whose interval is known."""

import math

import numpy as np
import pytest

from recollect.analysis.intervals import bootstrap, over_seeds


def test_the_spread_of_seeds():
    found = over_seeds([0.5, 0.7, np.nan, 0.9])
    assert (found.min, found.max, found.seeds) == (0.5, 0.9, 3)
    assert found.mean == pytest.approx(0.7)
    assert found.low == pytest.approx(0.5), "1 draw in 27 has the lowest seed three times, more than 2.5 %"
    assert found.high == pytest.approx(0.9)


def test_seeds_that_agree_leave_no_interval_and_one_seed_gives_none():
    assert (over_seeds([0.4] * 5).low, over_seeds([0.4] * 5).high) == (pytest.approx(0.4), pytest.approx(0.4))
    alone = over_seeds([0.4])
    assert alone.mean == 0.4
    assert math.isnan(alone.low)
    assert over_seeds([]).seeds == 0
    assert math.isnan(over_seeds([np.nan]).mean)


def test_the_interval_of_a_mean_is_two_standard_errors_either_way():
    values = np.random.default_rng(1).normal(0, 1, 100)
    low, high = bootstrap(100, lambda draw: float(values[draw].mean()))
    error = values.std() / 10
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.2 * error)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.2 * error)
    assert (low, high) == bootstrap(100, lambda draw: float(values[draw].mean())), "asked again, it is the same"
