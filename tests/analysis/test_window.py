"""The learning-rate window, on curves whose window is known."""

import numpy as np
import pandas as pd
import pytest

from recollect.analysis.window import ZOOLOGY_RATES, Stretch, crossing, stretches, window, windows

RATES = np.geomspace(1e-5, 1e-1, 17)


def plateau(low: float, high: float, rates=RATES) -> np.ndarray:
    """1 between two rates, 0 outside."""
    return ((rates >= low * 0.999) & (rates <= high * 1.001)).astype(float)


def test_a_plateau_is_as_wide_as_its_points_and_what_interpolation_adds():
    found = window(RATES, plateau(1e-4, 1e-2))
    assert found.decades == pytest.approx(
        2 + 2 * 0.05 * 0.25
    )  # from 0 to 1 over a quarter decade, 0.95 is crossed near the top
    assert found.low == pytest.approx(1e-4 * 10 ** (-0.05 * 0.25))
    assert (found.open_low, found.open_high) == (False, False)
    assert found.area == pytest.approx((2 + 0.25) / 4)


def test_a_window_one_point_wide_and_none_at_all():
    assert window(RATES, plateau(1e-3, 1e-3)).decades == pytest.approx(0.025)
    none = window(RATES, 0.9 * plateau(1e-4, 1e-2))
    assert (none.decades, none.zoology_finds) == (0.0, False)
    assert np.isnan(none.low)


def test_a_window_at_the_end_of_the_grid_is_open_there():
    found = window(RATES, plateau(1e-5, 1e-4))
    assert (found.open_low, found.open_high) == (True, False)
    assert window(RATES, np.ones(17)).decades == pytest.approx(4)


def test_the_widest_of_several_stretches_counts_and_any_of_them_can_be_found():
    found = window(RATES, plateau(1e-4, 1e-4) + plateau(1e-3, 5e-3))
    assert found.low == pytest.approx(1e-3, rel=0.05)
    assert found.zoology_finds, "one of the four rates is 1e-4"


def test_a_narrow_window_between_zoologys_rates_is_missed():
    between = float(np.sqrt(ZOOLOGY_RATES[1] * ZOOLOGY_RATES[2]))
    assert not window([1e-5, between * 0.9, between, between * 1.1, 1e-1], [0, 0, 1, 0, 0]).zoology_finds


def test_stretches_have_their_points_and_their_interpolated_edges():
    found = stretches([0, 1, 2, 3, 4, 5], [1.0, 0.5, 0.0, 0.8, 0.9, 0.4], threshold=0.75)
    assert [(s.first, s.last) for s in found] == [(0, 0), (3, 4)]
    assert (found[0].low, found[0].high) == (0, 0.5), "open below, and halfway to the next point"
    assert (found[1].low, found[1].high) == (pytest.approx(2 + 0.75 / 0.8), pytest.approx(4.3))
    assert found[1].width == pytest.approx(4.3 - 2.9375)
    assert stretches([0, 1], [0.75, 0.75], threshold=0.75) == [Stretch(0, 1, 0, 1)], "reaching it is enough"
    assert stretches([0, 1], [0.7, 0.7], threshold=0.75) == []
    assert crossing(4, 0.0, 2, 1.0, threshold=0.25) == 3.5


def test_the_best_rate_and_the_threshold_come_along():
    rows = [
        {"configuration": "m", "train.lr": lr, "train.seed": seed, "accuracy": y - 0.1 * seed}
        for lr, y in ((1e-2, 0.9), (1e-3, 0.9), (1e-4, 0.5)) for seed in (0, 1)
    ]  # fmt: skip
    (row,) = windows(pd.DataFrame(rows), threshold=0.8).to_dict("records")
    assert (row["best_lr"], row["best"], row["threshold"]) == (1e-3, pytest.approx(0.85), 0.8)
    assert row["decades"] == pytest.approx(1 + 0.05 / 0.4)
    assert windows(pd.DataFrame(rows))["decades"].item() == 0


def test_seeds_give_an_interval():
    rows = [
        {"configuration": "m", "train.lr": lr, "train.seed": seed, "accuracy": y}
        for seed, (low, high) in {1: (1e-4, 1e-3), 2: (1e-4, 1e-2), 3: (1e-4, 1e-2)}.items()
        for lr, y in zip(RATES, plateau(low, high), strict=True)
    ]
    (row,) = windows(pd.DataFrame(rows)).to_dict("records")
    assert row["decades"] == pytest.approx(1.0, abs=0.06), "the mean is 2/3 where one seed fails"
    assert (round(row["seed_min"], 1), round(row["seed_max"], 1)) == (1.0, 2.0)
    assert row["interval_low"] == pytest.approx(1.0, abs=0.06)
    assert row["interval_high"] == pytest.approx(2.0, abs=0.06)


def test_a_seed_that_was_not_tried_is_no_failure_and_one_that_diverged_is():
    rows = [{"configuration": "m", "train.lr": lr, "train.seed": 1, "accuracy": 1.0} for lr in (1e-4, 1e-3, 1e-2)]
    rows += [{"configuration": "m", "train.lr": 1e-2, "train.seed": 2, "accuracy": 1.0}]
    assert windows(pd.DataFrame(rows))["decades"].item() == pytest.approx(2.0)
    rows[-1]["accuracy"] = None
    assert windows(pd.DataFrame(rows))["decades"].item() < 1.2


def test_rates_must_be_distinct():
    with pytest.raises(ValueError, match="distinct learning rates"):
        window([1e-3, 1e-3], [0, 1])


def test_the_best_rate_is_chosen_by_validation_rows_and_its_accuracy_is_that_on_test_rows():
    columns = ["train.lr", "train.seed", "accuracy", "final.valid"]
    frame = pd.DataFrame([(1e-3, 1, 0.99, 0.90), (1e-2, 1, 0.97, 0.98)], columns=columns).assign(configuration="one")
    row = windows(frame).iloc[0]
    assert (row["best_lr"], row["best"]) == (1e-2, 0.97)
    before = windows(frame.drop(columns="final.valid")).iloc[0]
    assert (before["best_lr"], before["best"]) == (1e-3, 0.99), "runs that are older than validation rows"


def test_a_table_of_windows_begins_with_what_a_narrow_screen_must_show():
    frame = pd.DataFrame({"configuration": "a", "train.lr": [0.1, 0.2], "train.seed": 1, "accuracy": [0.5, 1.0]})
    assert list(windows(frame).columns[:4]) == ["configuration", "best", "best_lr", "low"]
