"""Sensitivity to the learning rate, on curves whose sensitivity is known; and what stands beside a window."""

import math

import numpy as np
import pandas as pd
import pytest

from recollect.analysis.sensitivity import RANGE, sensitivity
from recollect.analysis.window import windows

RATES = np.geomspace(1e-5, 1e-1, 17)
DECADES = math.log10(RANGE[1] / RANGE[0])


def frame(
    accuracy: dict[int, np.ndarray], loss: dict[int, np.ndarray] | None = None, rates=RATES, **more
) -> pd.DataFrame:
    rows = [
        {"configuration": "mine", "train.lr": rate, "train.seed": seed, "accuracy": curve[i], "status": "finished",
         "task.vocab": 64, **({} if loss is None else {"final.loss": loss[seed][i]})}
        for seed, curve in accuracy.items()
        for i, rate in enumerate(rates)
    ]  # fmt: skip
    return pd.DataFrame(rows).assign(**more)


def test_a_curve_that_does_not_depend_on_the_rate_has_none():
    assert sensitivity(RATES, np.full(17, 2.5)) == 0
    found = windows(frame({1: np.full(17, 0.7), 2: np.full(17, 0.7)})).iloc[0]
    assert found[["sensitivity", "sensitivity_low", "sensitivity_high"]].tolist() == pytest.approx([0, 0, 0], abs=1e-12)


def test_it_is_the_mean_over_the_range_above_the_best_in_the_range():
    slope = np.log10(RATES) - math.log10(RANGE[0])  # 0 at the range's lower end, and lower below, which does not count
    assert sensitivity(RATES, slope) == pytest.approx(DECADES / 2)
    assert sensitivity(RATES, slope, 1e-4, 1e-2) == pytest.approx(1)
    assert sensitivity(np.array([1e-4, 1e-1]), np.array([1.0, 0.0])) == pytest.approx(DECADES / 3 / 2)


def test_a_sweep_that_does_not_cover_the_range_has_no_sensitivity():
    assert math.isnan(sensitivity(RATES[:-1], np.zeros(16)))
    assert math.isnan(sensitivity(RATES[8:], np.zeros(9)))


def test_a_loss_counts_at_most_as_before_training_and_a_diverged_run_as_that():
    learnt = {seed: np.where(RATES < 5e-3, 0.0, 99.0) for seed in (1, 2)}
    learnt[2][-1] = np.nan
    found = windows(frame({1: np.ones(17), 2: np.ones(17)}, learnt)).iloc[0]
    last, first = math.log10(RATES[RATES > 5e-3][0]), math.log10(RATES[RATES < 5e-3][-1])
    expected = math.log(64) * (-1 - (last + first) / 2) / DECADES
    assert found["loss_sensitivity"] == pytest.approx(expected)
    assert found["loss_sensitivity_low"] == pytest.approx(expected), "both seeds are the same"
    assert math.isnan(windows(frame({1: np.ones(17)})).iloc[0]["loss_sensitivity"]), "no loss is known"


def test_intervals_are_over_seeds_and_a_single_seed_has_none():
    at = {seed: np.exp(-((np.log10(RATES) - place) ** 2)) for seed, place in ((1, -3.0), (2, -2.5), (3, -2.0))}
    found = windows(frame(at)).iloc[0]
    assert found["best_lr"] == pytest.approx(10**-2.5)
    assert found["best_lr_low"] == pytest.approx(1e-3)
    assert found["best_lr_high"] == pytest.approx(1e-2)
    assert found["sensitivity_low"] < found["sensitivity"] < found["sensitivity_high"]
    alone = windows(frame({1: at[1]})).iloc[0]
    assert alone["sensitivity"] > 0
    assert all(math.isnan(alone[name]) for name in ("sensitivity_low", "best_lr_low", "interval_low"))


def test_the_share_of_diverged_runs_has_an_interval_even_at_none():
    runs = frame({1: np.ones(17), 2: np.ones(17)})
    none = windows(runs).iloc[0]
    assert (none["diverged"], none["diverged_low"]) == (0, 0)
    assert 0 < none["diverged_high"] < 0.15
    some = windows(runs.assign(status=["diverged"] * 17 + ["finished"] * 17)).iloc[0]
    assert (some["diverged"], some["diverged_low"] < 0.5 < some["diverged_high"]) == (0.5, True)


def test_best_checkpoints_have_a_window_of_their_own():
    fell_back = np.where(RATES < 2e-3, 1.0, 0.2)
    found = windows(frame({1: fell_back}, best_accuracy=1.0)).iloc[0]
    assert found["decades"] < 2.4
    assert found["checkpoint_decades"] == pytest.approx(4)
    assert windows(frame({1: fell_back})).iloc[0]["checkpoint_decades"] == found["decades"], "nothing else is known"


def test_a_seed_that_a_search_did_not_try_at_a_rate_is_left_out():
    runs = frame({1: np.ones(17), 2: np.ones(17)})
    part = runs[(runs["train.seed"] == 1) | (runs["train.lr"] > 1e-3)]
    assert windows(part).iloc[0]["sensitivity"] == pytest.approx(0, abs=1e-12)
