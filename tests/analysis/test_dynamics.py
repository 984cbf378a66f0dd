"""Plateaus, transitions and bumps, on curves that were made with them."""

import math

import numpy as np
import pandas as pd
import pytest

from recollect.analysis.dynamics import (
    accuracy_moved,
    bump,
    dynamics,
    leaves,
    plateaus,
    transition,
    uninformed_loss,
)

STEPS = np.arange(10, 1010, 10)  # 100 points


def staircase(noise: float = 0.0) -> np.ndarray:
    """5 until step 500, down to 1 at 600, then 1."""
    loss = np.interp(STEPS, [0, 500, 600, 1000], [5, 5, 1, 1])
    return loss + noise * np.random.default_rng(0).standard_normal(100)


@pytest.mark.parametrize("noise", [0.0, 0.04])
def test_a_staircase_has_two_plateaus_and_a_transition_between_them(noise):
    first, second = plateaus(STEPS, staircase(noise))
    assert (first.start, second.end) == (10, 1000)
    assert first.end == pytest.approx(500, abs=20)
    assert second.start == pytest.approx(600, abs=20)
    assert (first.level, second.level) == (pytest.approx(5, abs=0.05), pytest.approx(1, abs=0.05))
    change = transition(STEPS, staircase(noise))
    assert change.depth == pytest.approx(4, abs=0.1)
    assert change.step == pytest.approx(550, abs=10)
    assert (change.begin, change.end) == (first.end, second.start)
    assert change.share == pytest.approx(0.8, abs=0.02), "of the level before"


def test_smooth_curves_have_no_transition():
    for loss in (5 * np.exp(-STEPS / 200), 5 - STEPS / 250, np.full(100, 3.0)):
        assert transition(STEPS, loss) is None
        assert bump(STEPS, loss) is None


def test_a_bump_is_a_rise_that_is_made_up_for():
    hill = 2 * np.exp(-(((STEPS - 400) / 40) ** 2))
    found = bump(STEPS, 4 - STEPS / 500 + hill)
    assert found.step == pytest.approx(400, abs=20)
    assert found.depth == pytest.approx(1.65, abs=0.1), "over the lowest level before; the median takes the tip off"
    assert found.share == pytest.approx(found.depth / 3.4, abs=0.05)
    assert 250 <= found.begin < 400 < found.end <= 550
    assert bump(STEPS, np.where(STEPS < 400, 1.0, 5.0)) is None, "a loss that stays up has diverged, not bumped"
    spike = np.full(100, 2.0)
    spike[50] = 9
    assert bump(STEPS, spike) is None, "a single outlier is none"


def test_how_long_a_run_goes_on_and_how_far_it_fell_before_do_not_matter():
    """Twenty times the steps, and a fall from 9 nats before: the same bump, and the same fall after a short flat stretch."""
    hill = 3 + 0.15 * np.exp(-(((STEPS - 400) / 40) ** 2))
    long = np.arange(10, 20_010, 10)
    fallen = np.concatenate([np.linspace(9, 3, 10), hill[10:], np.full(1900, 3.0)])
    assert bump(STEPS, hill).share == pytest.approx(bump(long, fallen).share, abs=1e-3)
    assert bump(STEPS, 3 + 0.5 * (hill - 3)) is None, "2.5 %"
    rises = np.interp(STEPS, [0, 400, 440, 520, 1000], [3, 3, 3.2, 3.08, 3.08])
    assert bump(STEPS, rises).depth == pytest.approx(0.18, abs=0.02), "one that settles above where it was"
    early = np.interp(STEPS, [0, 80, 110, 1000], [5, 5, 1, 1])
    assert transition(STEPS, early).depth == pytest.approx(4, abs=0.1), "a flat stretch of 8 % of the run"


def found(loss: np.ndarray, noise: float = 0.0, times: int = 40) -> tuple[float, float]:
    """The shares of noisy copies of a curve with a bump and with a transition; noise as a share of the loss."""
    rng = np.random.default_rng(0)
    copies = [loss * (1 + noise * rng.standard_normal(len(loss))) for _ in range(times)]
    return tuple(float(np.mean([rule(STEPS, copy) is not None for copy in copies])) for rule in (bump, transition))


PROGRESS = STEPS / STEPS[-1]
FALLEN = 3 + 6 * np.exp(-PROGRESS / 0.02)
"""From 9 nats to a plateau at 3."""


def fall(at: float, over: float) -> np.ndarray:
    """From 1 to 0 around a share of the run; the middle half takes 2.2 times `over`."""
    return 1 / (1 + np.exp((PROGRESS - at) / over))


@pytest.mark.parametrize("noise", [0.0, 0.01])
@pytest.mark.parametrize(
    ("loss", "bumps", "falls"),
    [
        (FALLEN, False, False),
        (3 - 2.5 * PROGRESS, False, False),
        (3 * (PROGRESS + 0.01) ** -0.3, False, False),
        (np.interp(PROGRESS, [0, 0.1, 1], [3, 3, 0.2]), False, False),  # a plateau, then a steady fall
        (0.2 + 2.8 * fall(0.55, 0.12), False, False),  # gradual
        (0.2 + 2.8 * fall(0.4, 0.02), False, True),  # sudden
        (FALLEN - 0.7 * (1 - fall(0.5, 0.01)), False, True),
        (FALLEN + 0.5 * np.exp(-(((PROGRESS - 0.5) / 0.04) ** 2)), True, False),
        (3 + 0.3 * np.exp(-(((PROGRESS - 0.5) / 0.2) ** 2)), False, False),  # a slow swell
        (FALLEN + 0.3 * (1 - fall(0.5, 0.01)), False, False),  # rises and stays
        (FALLEN + np.clip(PROGRESS - 0.3, 0, 1), False, False),  # overfits
    ],
)
def test_sudden_changes_are_distinguished_from_gradual_ones_and_from_noise(loss, bumps, falls, noise):
    for share, there in zip(found(loss, noise), (bumps, falls), strict=True):
        assert share >= 0.9 if there else share <= 0.15


def test_whether_accuracy_moved_with_the_loss():
    change = transition(STEPS, staircase())
    assert accuracy_moved(STEPS, np.interp(STEPS, [0, 500, 600], [0.1, 0.1, 0.9]), change)
    assert not accuracy_moved(STEPS, np.full(100, 0.06), change)


def test_dynamics_of_runs_as_a_frame():
    def curve(run: str, loss: np.ndarray, accuracy: np.ndarray) -> pd.DataFrame:
        return pd.DataFrame({"run": run, "step": STEPS, "test_loss": loss, "accuracy": accuracy})

    solved = np.interp(STEPS, [0, 500, 600], [0.0, 0.0, 1.0])
    diverged = curve("diverged", np.full(100, np.nan), solved)
    frame = pd.concat([curve("jump", staircase(), solved), curve("stuck", staircase(), 0 * solved),
                       curve("smooth", 5 * np.exp(-STEPS / 200), solved), diverged])  # fmt: skip
    found = dynamics(frame).set_index("run")
    assert list(found["transition_moved"]) == [True, False, False, False]
    assert found.loc["jump", "transition_share"] == pytest.approx(0.8)
    assert found.loc[["smooth", "diverged"], ["transition_share", "bump_share"]].isna().all(axis=None)


def test_when_a_loss_leaves_the_level_of_knowing_nothing():
    level = uninformed_loss(200)
    assert level == pytest.approx(2.65, abs=0.005)
    assert leaves(STEPS, np.interp(STEPS, [0, 300, 400], [level, level, 0]), level) == pytest.approx(310, abs=20)
    assert math.isnan(leaves(STEPS, np.full(100, level), level))
    back = np.where((STEPS > 200) & (STEPS < 400), 1.0, level)
    assert math.isnan(leaves(STEPS, back, level)), "it must stay below"


def test_a_curve_needs_increasing_steps():
    with pytest.raises(ValueError, match="increasing steps"):
        plateaus([2, 1], [0, 0])
