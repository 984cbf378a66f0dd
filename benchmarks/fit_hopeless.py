"""Fits the constants by which `train.stop_below` ends a run early (train/hopeless.py) to recorded curves.

    python benchmarks/fit_hopeless.py

The curves are those of okpekpe2025 at medium (docs/reproductions: training of 50 epochs) and those of short training in
benchmarks/short_curves.csv (MQAR with 32 tokens, width 32, 400 steps). Runs that learn late are rare among them, so that every
curve is also cut short, as if training had ended there. A run is stopped wrongly if it would have reached the accuracy asked for.
Of the constants on the grid that stop no whole run wrongly, and of the cut ones at most 1.5 %, those that save the most steps are
taken. The rates on models that were left out of the fit, and on the curves of another paper's tasks, are printed as well.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[1]
TARGETS = (0.9, 0.95)
CUTS = (0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8)
"""Shares of the steps after which curves are cut, where at least 12 measurements are left."""
ALLOWED = 0.015
"""The share of the cut runs that reach the accuracy that may be stopped."""
GRID = {"FROM": (0.5, 0.6, 0.7, 0.8), "GAIN": (1.0, 2.0, 4.0, 8.0), "FALL": (0.5, 0.7, 0.8, 0.85, 0.9, 0.95)}


class Curve(NamedTuple):
    """One run: what it is of, where it came to, and at each measurement but the last what the rule looks at."""

    group: str
    whole: bool
    """Whether it was trained to the end of its schedule, and not cut."""
    accuracy: float
    points: list[dict[str, float]]
    share: np.ndarray
    """Of the steps."""
    best: np.ndarray
    """The highest accuracy so far."""
    gain: np.ndarray
    """What was gained since the best of the first half."""
    fall: np.ndarray
    """The training loss over that at half of the steps so far."""

    def stopped_at(self, constants: dict[str, float], target: float) -> float:
        """The share of its steps after which a run is stopped; 1 where it is not."""
        promised = self.best + constants["GAIN"] * self.gain
        ends = (self.share >= constants["FROM"]) & (promised < target) & (self.fall > constants["FALL"])
        return float(self.share[ends.argmax()]) if ends.any() else 1.0


class Rates(NamedTuple):
    """What a rule does to some runs."""

    wrong: float
    """Of the runs that reach the accuracy, the share that is stopped."""
    caught: float
    """Of the others, the share that is stopped."""
    steps: float
    """The share of all steps that is still taken."""


def kept(folder: str) -> list[Curve]:
    """The runs of a reproduction that were trained to their end."""
    path, found = ROOT / "docs" / "reproductions" / folder, []
    runs = pd.read_csv(path / "runs.csv", low_memory=False).set_index("id")
    for run, frame in pd.read_parquet(path / "curves.parquet").sort_values("step").groupby("run"):
        if runs.loc[run, "status"] == "finished":
            found += cut(f"long {runs.loc[run, 'model']}", frame, runs.loc[run, "accuracy"])
    return found


def curves() -> list[Curve]:
    """The recorded runs that the constants are fitted to."""
    found = kept("medium/okpekpe2025")
    short = pd.read_csv(Path(__file__).with_name("short_curves.csv"))
    for (model, *_), frame in short.groupby(["model", "lr", "seed"]):
        found += cut(f"short {model}", frame, frame["final"].iloc[0])
    return found


def cut(group: str, frame: pd.DataFrame, accuracy: float) -> list[Curve]:
    """A run, and the same cut short."""
    parts = [frame[: round(share * len(frame))] for share in CUTS]
    early = [curve(group, False, part, part["accuracy"].iloc[-1]) for part in parts if len(part) >= 12]
    return [curve(group, True, frame, accuracy), *early]


def curve(group: str, whole: bool, frame: pd.DataFrame, accuracy: float) -> Curve:
    """What the rule looks at along a run."""
    points = frame[["step", "accuracy", "train_loss"]].to_dict("records")
    steps, accuracies, losses = (frame[name].to_numpy(float) for name in ("step", "accuracy", "train_loss"))
    best = np.maximum.accumulate(accuracies)
    half = np.searchsorted(steps, steps / 2, side="right") - 1
    seen = half >= 0
    gain = np.maximum(accuracies - best[half], 0)
    fall = np.where(seen, losses / losses[half], -1.0)  # where there is no half yet, nothing is stopped
    return Curve(group, whole, float(accuracy), points, *(x[:-1] for x in (steps / steps[-1], best, gain, fall)))


def rates(runs: Sequence[Curve], constants: dict[str, float]) -> Rates:
    """What the constants do to some runs, over both targets."""
    ends = [(run.stopped_at(constants, target), run.accuracy >= target) for target in TARGETS for run in runs]
    share, reached = (np.array(column) for column in zip(*ends, strict=True))
    early = share < 1
    parts = (float(early[mask].mean()) if mask.any() else 0.0 for mask in (reached, ~reached))
    return Rates(*parts, float(share.mean()))


def choose(runs: Sequence[Curve]) -> dict[str, float]:
    """The constants that save the most steps of whole runs, of those that stop few enough of the others wrongly."""
    whole, others = ([run for run in runs if run.whole is is_whole] for is_whole in (True, False))
    tried = []
    for values in itertools.product(*GRID.values()):
        constants = dict(zip(GRID, values, strict=True))
        found = rates(whole, constants)
        if found.wrong == 0 and rates(others, constants).wrong <= ALLOWED:
            tried.append((found.steps, values))
    most_cautious = tuple(max(values) for values in GRID.values())
    return dict(zip(GRID, min(tried)[1] if tried else most_cautious, strict=True))


def left_out(runs: Sequence[Curve]) -> tuple[int, int]:
    """How many runs that reach an accuracy are stopped by constants fitted without their model, and of how many."""
    wrong = []
    for group in sorted({run.group for run in runs}):
        constants = choose([run for run in runs if run.group != group])
        own = [(run, target) for run in runs if run.group == group for target in TARGETS if run.accuracy >= target]
        own = [(run, target) for run, target in own if run.whole]
        wrong += [run.stopped_at(constants, target) < 1 for run, target in own]
    return sum(wrong), len(wrong)


def main() -> None:
    """Print the constants and what they do."""
    runs = curves()
    chosen = choose(runs)
    print(" ".join(f"{name} = {value}" for name, value in chosen.items()))
    parts = {name: [run for run in runs if run.whole and run.group.startswith(name)] for name in ("long", "short")}
    parts["cut"] = [run for run in runs if not run.whole]
    parts["not fitted"] = [run for run in kept("tiny/retrievit2026") if run.whole]
    for title, part in parts.items():
        found, reach = rates(part, chosen), sum(run.accuracy >= target for run in part for target in TARGETS)
        print(
            f"{title}: {len(part)} runs, {len(TARGETS)} targets, reached {reach} times: {found.wrong:.1%} of these are stopped, "
            f"{found.caught:.0%} of the others; {found.steps:.0%} of the steps are taken"
        )
    wrong, reach = left_out(runs)
    print(
        f"fitted without the model in turn: {wrong} of {reach} that reach the target are stopped ({wrong / reach:.1%})"
    )


if __name__ == "__main__":
    main()
