"""Ends runs whose curves show that their remaining steps would not help.

`stop_hopeless` ends a run whose training loss is still where it began. `stop_below` ends one whose accuracy, with what it has
gained over the second half of its steps so far, counted `GAIN` times, stays below that bound, while its training loss
falls but little. The constants are fitted by benchmarks/fit_hopeless.py to recorded runs.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from recollect.train.spec import TrainSpec

UNCHANGED = 0.98
"""The share of its first training loss above which a run has learnt nothing."""
FROM = 0.6
"""The share of its steps before which no run is ended by its curve."""
GAIN = 8.0
"""How many times the recent gain in accuracy a run is credited with."""
FALL = 0.85
"""A training loss that is below this share of what it was at half of the steps so far speaks for the run."""


def hopeless(spec: TrainSpec, curve: Sequence[dict[str, Any]]) -> bool:
    """Whether a run ends as hopeless at the last measurement of its curve."""
    now, first = curve[-1], curve[0]
    late = spec.stop_hopeless > 0 and now["step"] >= spec.stop_hopeless * spec.total_steps
    if late and now["train_loss"] > UNCHANGED * first["train_loss"]:
        return True
    return spec.stop_below > 0 and now["step"] >= FROM * spec.total_steps and unpromising(curve, spec.stop_below)


def unpromising(curve: Sequence[dict[str, Any]], target: float) -> bool:
    """Whether a curve promises less than an accuracy of `target`."""
    half = bisect_right(curve, curve[-1]["step"] / 2, key=lambda point: point["step"])
    if not half:
        return False
    now, before = curve[-1], curve[half - 1]
    best, earlier = (max(point["accuracy"] for point in part) for part in (curve, curve[:half]))
    promised = best + GAIN * max(0.0, now["accuracy"] - earlier)
    return promised < target and now["train_loss"] > FALL * before["train_loss"]
