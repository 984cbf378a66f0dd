"""Numbers that JSON cannot hold become None, and nothing else does."""

import math

import numpy as np
import pytest

from recollect.spec import finite


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float64("nan")])
def test_what_is_not_finite_is_none(value):
    assert finite(value) is None


@pytest.mark.parametrize("value", [0.0, -1e308, 3, True, "nan", None, [math.pi]])
def test_everything_else_stays(value):
    assert finite(value) is value
