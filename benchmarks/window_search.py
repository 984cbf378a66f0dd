"""How many runs the window search needs, against a dense grid: `python benchmarks/window_search.py [sweep.csv ...]`.

It replays the search on sweeps that were recorded densely (a CSV or Parquet file as `recollect results --to` writes it, or
a store) and on synthetic ones, beside random search with as many runs and Zoology's four rates with every seed. The truth
is the window of the dense sweep's mean over seeds; an error is that of the worse edge, in steps of the grid; a window
reported where there is none, or none where there is one, is a miss.

Time: a cohort of m members takes alone + (m - 1) x (full - alone) / (members - 1), by default 5 and 23 ms a step for 1 and
36 members (two layers of attention, compiled, one H200), and a round is one cohort of each configuration, or several
where it has more than `members` runs. Small rounds so forfeit part of what few runs gain, so on a GPU they are filled with the
runs that will most probably be needed next; on a CPU, where time goes with the number of runs, the column of runs says it all.
"""

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from recollect.analysis.window import THRESHOLD, ZOOLOGY_RATES, window
from recollect.store.frames import runs_frame
from recollect.store.store import Store
from recollect.study.grid import axis
from recollect.study.search.finder import WindowFinder
from recollect.study.search.forecast import likely_points
from recollect.study.search.window import WindowSearch

KINDS = (
    "one step",
    "one step, alone",
    "two steps",
    "wide",
    "uneven edges",
    "seeds disagree",
    "none",
    "none, but nearly",
)
MISS = math.inf


@dataclass(frozen=True)
class Sweep:
    """A dense sweep of one configuration."""

    name: str
    rates: tuple[float, ...]
    seeds: tuple[int, ...]
    accuracy: np.ndarray
    """(rates, seeds)"""

    @property
    def results(self) -> dict[tuple[float, int], float]:
        """Every run, as a search receives it."""
        places = np.ndindex(self.accuracy.shape)
        return {(self.rates[i], self.seeds[j]): float(self.accuracy[i, j]) for i, j in places}

    def edges(self, tried: np.ndarray | None = None) -> tuple[float, float]:
        """The window's edges in log10, from the runs marked in `tried` (rates, seeds), or from all; NaN: there is none."""
        values = np.where(True if tried is None else tried, self.accuracy, np.nan)
        seen = ~np.isnan(values).all(1)
        if not seen.any():
            return math.nan, math.nan
        found = window(np.array(self.rates)[seen], np.nanmean(values[seen], 1), THRESHOLD)
        return math.log10(found.low), math.log10(found.high)

    def error(self, edges: tuple[float, float]) -> float:
        """How far the worse edge is from the dense one, in steps of the grid."""
        true = self.edges()
        if math.isnan(true[0]) or math.isnan(edges[0]):
            return 0.0 if math.isnan(true[0]) and math.isnan(edges[0]) else MISS
        step = math.log10(self.rates[-1] / self.rates[0]) / (len(self.rates) - 1)
        return max(abs(a - b) for a, b in zip(true, edges, strict=True)) / step


def synthetic(kind: str, points: int, generator: np.random.Generator, seeds: int = 3) -> Sweep:
    """A made-up sweep: full accuracy between two edges, falling off outside, at a random place."""
    x = np.arange(points)[:, None]  # (points, 1)
    narrow = {"one step": 1.0, "one step, alone": 1.0, "two steps": 2.0}
    width = narrow.get(kind) or generator.uniform(3, 0.75 * points)
    low = generator.uniform(0.5, points - 1.5 - width) if kind in narrow else generator.uniform(-1, points - width)
    floor, top, noise = generator.choice([0.0, 0.02, 0.2]), 1.0, 0.003
    fall = np.array([1.0, 1.0]) * generator.choice(
        [0.1, 0.5, 1.5]
    )  # in steps: how gently accuracy falls on either side
    shift = np.zeros((2, seeds))
    if kind == "one step, alone":
        fall[:], floor = 1e-3, 0.02
    elif kind == "uneven edges":
        fall[:] = generator.permutation([0.02, 3.0])
    elif kind == "seeds disagree":
        width = generator.uniform(1.5, 0.6 * points)
        shift, noise, top = generator.normal(0, 0.5, (2, seeds)), 0.01, 0.99
    elif kind == "none":
        top = generator.choice([floor, 0.3, 0.6, 0.8])
    elif kind == "none, but nearly":
        top, noise, width = generator.choice([0.88, 0.9, 0.92]), 0.005, generator.uniform(0, 4)
    below, above = np.maximum(low + shift[0] - x, 0), np.maximum(x - low - width - shift[1], 0)  # (points, seeds)
    shape = np.exp(-((below / fall[0]) ** 2) - (above / fall[1]) ** 2)
    accuracy = floor + (top - floor) * shape + noise * generator.standard_normal(shape.shape)
    names = tuple((42, 123, 777, *range(1000, 1000 + seeds))[:seeds])
    return Sweep(kind, tuple(axis("logspace", 1e-5, 1e-1, points)), names, np.clip(accuracy, 0, 1))


def recorded(path: Path) -> list[Sweep]:
    """The dense sweeps in a file, one per model."""
    if path.suffix in (".sqlite", ".db"):
        frame = runs_frame(Store(path))
    else:
        frame = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    sweeps = []
    for name, group in frame.groupby("model", sort=False):
        counts = group.pivot_table(index="train.lr", columns="train.seed", values="accuracy", aggfunc="size")
        if counts.isna().any(axis=None) or (counts != 1).any(axis=None):
            raise SystemExit(
                f"{path}: {name} has not one run for every seed at every rate; give one dense sweep a model"
            )
        table = group.fillna({"accuracy": 0.0}).pivot_table(index="train.lr", columns="train.seed", values="accuracy")
        seeds = tuple(dict.fromkeys(int(seed) for seed in group["train.seed"]))
        rates = tuple(float(f"{rate:.12g}") for rate in table.index)
        sweeps.append(Sweep(str(name), rates, seeds, table[list(seeds)].to_numpy()))
    return sweeps


@dataclass(frozen=True)
class Cost:
    """Device time of cohorts."""

    alone: float
    full: float
    members: int

    def __call__(self, rounds: list[int]) -> float:
        """The time of some rounds, each given by its runs."""
        each = (self.full - self.alone) / (self.members - 1)
        cohorts = sum(math.ceil(runs / self.members) for runs in rounds)
        return cohorts * (self.alone - each) + sum(rounds) * each


@dataclass(frozen=True)
class Tried:
    """What a strategy did on a sweep."""

    runs: int
    rounds: int
    share: float
    time: float
    """By that of the dense grid."""
    error: float


def search(sweep: Sweep, spec: WindowSearch, cost: Cost, filled: bool = False) -> Tried:
    """The window search; `filled`: each round is filled to a full cohort with the runs that will most probably be needed."""
    finder = WindowFinder(sweep.rates, sweep.seeds, spec.threshold, spec.coarse, spec.resolution, spec.max_runs)
    results = sweep.results
    known: dict[tuple[float, int], float] = {}
    rounds = []
    while wanted := finder.next_points(known):
        ahead = likely_points(finder, known) if filled else {}
        wanted += sorted(ahead, key=lambda point: -ahead[point])[: -len(wanted) % cost.members]
        rounds.append(len(wanted))
        known |= {run: results[run] for run in wanted}
    found = finder.found(known)
    return _tried(sweep, rounds, (math.log10(found.low), math.log10(found.high)), cost)


def at_random(sweep: Sweep, runs: int, generator: np.random.Generator, cost: Cost) -> Tried:
    """As many runs anywhere on the grid, in one round."""
    tried = np.zeros(sweep.accuracy.size, dtype=bool)
    tried[generator.permutation(tried.size)[:runs]] = True
    return _tried(sweep, [runs], sweep.edges(tried.reshape(sweep.accuracy.shape)), cost)


def four_rates(sweep: Sweep, cost: Cost) -> Tried:
    """Zoology's four rates (the nearest of the grid), every seed."""
    tried = np.zeros_like(sweep.accuracy, dtype=bool)
    for rate in ZOOLOGY_RATES:
        tried[np.abs(np.log(np.array(sweep.rates) / rate)).argmin()] = True
    return _tried(sweep, [int(tried.sum())], sweep.edges(tried), cost)


def _tried(sweep: Sweep, rounds: list[int], edges: tuple[float, float], cost: Cost) -> Tried:
    dense = sweep.accuracy.size
    return Tried(sum(rounds), len(rounds), sum(rounds) / dense, cost(rounds) / cost([dense]), sweep.error(edges))


def compare(sweeps: list[Sweep], spec: WindowSearch, cost: Cost) -> dict[str, list[Tried]]:
    """Every strategy on some sweeps; random search is drawn ten times on each."""
    generator = np.random.default_rng(0)
    searched, filled = ([search(sweep, spec, cost, full) for sweep in sweeps] for full in (False, True))
    drawn = [at_random(s, t.runs, generator, cost) for s, t in zip(sweeps, searched, strict=True) for _ in range(10)]
    return {
        "search": searched,
        "rounds filled": filled,
        "random": drawn,
        "four rates": [four_rates(sweep, cost) for sweep in sweeps],
    }


def add_rows(table: Table, name: str, tried: dict[str, list[Tried]]) -> None:
    """One row per strategy."""
    for strategy, all_of in tried.items():
        runs, rounds, share, time, errors = np.array([list(vars(one).values()) for one in all_of], float).T
        found = errors[np.isfinite(errors)]
        table.add_row(
            name, strategy, f"{runs.mean():.1f}", f"{runs.max():.0f}", f"{share.mean():.0%}", f"{share.max():.0%}",
            f"{rounds.mean():.1f}", f"{time.mean():.0%}", f"{np.median(found):.2f}" if len(found) else "-",
            f"{found.max():.2f}" if len(found) else "-", f"{(errors <= 1 + 1e-9).mean():.0%}", f"{np.isinf(errors).mean():.0%}",
        )  # fmt: skip
        name = ""
    table.add_section()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="How many runs the window search needs, against a dense grid.")
    parser.add_argument("sweeps", nargs="*", type=Path, help="dense sweeps: .csv, .parquet or .sqlite")
    parser.add_argument("--draws", type=int, default=300, help="synthetic sweeps of each kind")
    parser.add_argument("--points", type=int, default=17, help="rates of the synthetic sweeps")
    parser.add_argument("--coarse", type=int, default=5, help="rates of the search's first round")
    parser.add_argument("--alone", type=float, default=5.0, help="time of a step of one member")
    parser.add_argument("--full", type=float, default=23.0, help="time of a step of a full cohort")
    parser.add_argument("--members", type=int, default=36, help="members of a full cohort")
    given = parser.parse_args()
    spec, cost = WindowSearch(coarse=given.coarse), Cost(given.alone, given.full, given.members)

    table = Table("sweep", "strategy", title="window search against a dense grid", title_justify="left")
    for heading in ("runs", "most", "share", "most", "rounds", "time", "error", "worst", "≤ 1 step", "missed"):
        table.add_column(heading, justify="right")
    real = [sweep for path in given.sweeps for sweep in recorded(path)]
    for sweep in real:
        add_rows(table, sweep.name, compare([sweep], spec, cost))
    if real:
        add_rows(table, f"all {len(real)} recorded", compare(real, spec, cost))
    for kind in KINDS:
        generator = np.random.default_rng(0)
        made = [synthetic(kind, given.points, generator) for _ in range(given.draws)]
        add_rows(table, kind, compare(made, spec, cost))
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
