"""What a loss curve shows: plateaus, the fall after one, a bump; and whether accuracy moved with it.

Okpekpe & Orvieto (section 6, after Olsson et al. 2022) describe curves that stay flat, change suddenly and settle again,
with or without a gain in accuracy. Here, after a running median of five points, which removes single outliers:

    plateau     a stretch of at least 6 % of the run in which the loss moves by at most 3 % of its range in the run
    transition  the largest sudden fall from a plateau to the next one, or to the end of the run; at least 10 % of the range
    bump        the largest sudden rise above what was reached before, of which at least half is made up for afterwards; at least
                3 % of the level before and 0.05 nats: neither the length of the run nor how far it fell before matters

*Sudden*: the middle half of the fall or rise takes at most 10 % of the run. Nothing below four times the noise counts, which is
measured from point to point. A rise that stays, as in overfitting, is neither.
A smooth curve has a plateau only at its end, and so no transition. Retrievit's uninformed loss is log(length) / 2.
"""

import math
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

MEDIAN = 5
"""Points of the running median."""
FLAT, LONG = 0.03, 0.06
"""How far the loss may move in a plateau, as a share of its range; the least length of one, as a share of the run."""
FALL, RISE, NATS = 0.1, 0.03, 0.05
"""The least transition, as a share of the loss's range; the least bump, as a share of the level before it, and in nats."""
MOVED = 0.05
"""The least difference that counts as a change of accuracy."""
SUDDEN, NOISE = 0.1, 4.0
"""The most of a run that half of a sudden change takes; how many times the noise a change must be."""


@dataclass(frozen=True)
class Plateau:
    """A stretch of a curve that is flat."""

    start: float
    """The step at which it starts."""
    end: float
    """The step at which it ends."""
    level: float
    """The median of the curve in it."""


@dataclass(frozen=True)
class Change:
    """A fall, or a bump: a rise and a fall."""

    begin: float
    """The last step before it."""
    step: float
    """Where half of the fall is done, or the top of the bump."""
    end: float
    """The first step after it."""
    depth: float
    """How far the loss falls, or how high the bump is."""
    share: float
    """The depth as a share of the level before."""


def plateaus(steps: ArrayLike, loss: ArrayLike) -> list[Plateau]:
    """The flat stretches of a curve in order; none overlap."""
    x, y = _smooth(steps, loss)
    allowed, span = max(FLAT * np.ptp(y), _noise(loss)), LONG * (x[-1] - x[0])
    found, i = [], 0
    while i < len(x):
        j = _flat_until(y, i, allowed)
        if x[j] - x[i] >= span and j > i:
            found.append(Plateau(float(x[i]), float(x[j]), float(np.median(y[i : j + 1]))))
            i = j + 1
        else:
            i += 1
    return found


def transition(steps: ArrayLike, loss: ArrayLike) -> Change | None:
    """The largest sudden fall that follows a plateau, if it is at least `FALL` of the curve's range."""
    x, y = _smooth(steps, loss)
    flat = plateaus(steps, loss)
    enough = max(FALL * np.ptp(y), 2 * _noise(loss))  # a plateau may move by the noise itself
    falls = []
    for before, after in zip_longest(flat, flat[1:]):
        end, level = (after.start, after.level) if after else (float(x[-1]), float(y[-1]))
        depth, inside = before.level - level, (x >= before.end) & (x <= end)
        if depth > 0 and depth >= enough and _sudden(x[inside], before.level - y[inside], depth, x):
            half = x[inside][y[inside] <= before.level - depth / 2][0]
            falls.append(Change(before.end, float(half), end, depth, depth / before.level))
    return max(falls, key=lambda fall: fall.depth, default=None)


def bump(steps: ArrayLike, loss: ArrayLike) -> Change | None:
    """The largest rise above the lowest level before it, if it is sudden, at least `RISE` of that level and `NATS`, and at least
    half of it is made up for afterwards."""
    x, y = _smooth(steps, loss)
    level, after = np.minimum.accumulate(y), np.minimum.accumulate(y[::-1])[::-1]
    rise = np.where(y - after >= (y - level) / 2, y - level, 0.0)
    top = int(rise.argmax())
    if rise[top] < max(RISE * level[top], NATS, _noise(loss)):
        return None
    first = int(np.flatnonzero(y[:top] <= level[top])[-1])
    if not _sudden(x[first : top + 1], y[first : top + 1] - level[top], rise[top], x):
        return None
    end = x[top:][y[top:] <= y[top] - rise[top] / 2][0]
    return Change(float(x[first]), float(x[top]), float(end), float(rise[top]), float(rise[top] / level[top]))


def _noise(loss: ArrayLike) -> float:
    """NOISE times the standard deviation of the noise, from the differences of adjacent points, whose median is the trend."""
    steps = np.diff(np.asarray(loss, float))
    return NOISE * 1.4826 * float(np.median(np.abs(steps - np.median(steps)))) / math.sqrt(2) if len(steps) else 0.0


def _sudden(x: np.ndarray, moved: np.ndarray, depth: float, run: np.ndarray) -> bool:
    """Whether a change by `depth` goes from a quarter to three quarters of it within SUDDEN of the run."""
    quarter, most = (x[moved >= share * depth] for share in (0.25, 0.75))
    return bool(len(most)) and float(most[0] - quarter[0]) <= SUDDEN * float(run[-1] - run[0])


def accuracy_moved(steps: ArrayLike, accuracy: ArrayLike, change: Change) -> bool:
    """Whether the median accuracies in the tenths of the run before and after a change differ by at least `MOVED`."""
    x, y = np.asarray(steps, float), np.asarray(accuracy, float)
    tenth = (x[-1] - x[0]) / 10
    before = float(np.median(y[(x <= change.begin) & (x >= change.begin - tenth)]))
    after = float(np.median(y[(x >= change.end) & (x <= change.end + tenth)]))
    return abs(after - before) >= MOVED


def dynamics(curves: pd.DataFrame) -> pd.DataFrame:
    """One row per run: the `share` of the transition and of the bump in its validation loss (`transition_share`, `bump_share`;
    NaN where it has none), and whether accuracy moved with them (`transition_moved`, `bump_moved`)."""
    rows = []
    for run, curve in curves.sort_values("step").groupby("run", sort=False):
        curve = curve.loc[np.isfinite(curve["test_loss"].astype(float))]
        row: dict[str, object] = {"run": run}
        for name, find in (("transition", transition), ("bump", bump)):
            change = find(curve["step"], curve["test_loss"]) if len(curve) else None
            row[f"{name}_share"] = change.share if change else float("nan")
            row[f"{name}_moved"] = change is not None and accuracy_moved(curve["step"], curve["accuracy"], change)
        rows.append(row)
    return pd.DataFrame(rows)


def uninformed_loss(length: int) -> float:
    """The loss in position retrieval of a model that knows nothing: log(length) for the position, none for the end token."""
    return math.log(length) / 2


def leaves(steps: ArrayLike, loss: ArrayLike, level: float) -> float:
    """The first step from which the loss stays below a level by 2 % of it; NaN: it never does."""
    x, y = _smooth(steps, loss)
    above = np.flatnonzero(~(y <= 0.98 * level))
    first = above[-1] + 1 if len(above) else 0
    return float(x[first]) if first < len(x) else float("nan")


def _smooth(steps: ArrayLike, values: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Steps, and the running median of the values; near the ends over the available points."""
    x, y = np.asarray(steps, float), np.asarray(values, float)
    if len(x) == 0 or len(x) != len(y) or (np.diff(x) <= 0).any():
        raise ValueError(f"a curve needs increasing steps and as many values; got {len(x)} steps and {len(y)} values")
    half = MEDIAN // 2
    return x, np.array([np.median(y[max(0, i - half) : i + half + 1]) for i in range(len(y))])


def _flat_until(y: np.ndarray, start: int, allowed: float) -> int:
    """The last point such that from `start` to it the curve moves by at most `allowed`."""
    later = y[start:]
    moved = np.maximum.accumulate(later) - np.minimum.accumulate(later)
    return start + int(np.flatnonzero(moved <= allowed)[-1])
