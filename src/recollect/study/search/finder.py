"""Finds a learning-rate window without paying for the whole grid: which runs to train next, given those that have ended.

The window of a configuration is the widest stretch of rates whose accuracy, averaged over the seeds, is at least the
threshold. An accuracy is at most 1, so one bad seed can prove that a rate lies outside, and a rate at which the first seed
fails costs one run instead of one per seed. The search goes in rounds, each a batch of runs on the fixed grid of the study:

1. the first seed at a few coarse rates, the ends of the grid among them;
2. where some rate passes: the rates between it and its failing neighbours, until each edge is known to the resolution.
   Where none does: the rates around the best one, then all others, as a window may be narrower than the coarse grid;
3. every seed at the two edges; where seeds disagree the edge moves inwards, one rate at a time.

What it does not look for: a single seed that fails in the middle of a window at a rate that others pass.
The decisions depend on nothing but the results of the rounds before, and are replayed from the first round each time: a
search that was cut short, or that finds runs done already, asks for the same runs as any other.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import ceil, isnan, log10

from recollect.analysis.window import window
from recollect.spec import SpecError

Point = tuple[float, int]
"""A learning rate and a seed: one run of a configuration."""
PROBES = 3
"""How many rates between two known ones a round tries: a gap of the coarse grid is then filled in one round, not halved in
several, as a cohort of few members costs nearly as much as one of many."""


@dataclass(frozen=True)
class Found:
    """What a search knows about a window."""

    low: float = float("nan")
    """Its lower edge, interpolated between the rates that bracket it; NaN where there is no window."""
    high: float = float("nan")
    """Its upper edge."""
    open_low: bool = False
    """Whether it goes on below the grid."""
    open_high: bool = False
    """Whether it goes on above the grid."""
    best: float = float("nan")
    """The highest accuracy at any rate tried, averaged over the seeds tried there."""
    settled: bool = False
    """Whether both edges are known to the resolution, or every rate is known to fail; else the runs ran out."""
    runs: int = 0
    """Runs the decisions rest on."""
    rounds: int = 0
    """Batches they came in."""

    @property
    def exists(self) -> bool:
        """Whether any rate reaches the threshold."""
        return self.low == self.low

    @property
    def decades(self) -> float:
        """log10(high / low); 0 where there is no window."""
        return log10(self.high / self.low) if self.exists else 0.0


@dataclass
class _Known:
    """What is known at one rate: the accuracy of each seed that ended."""

    seeds: int
    threshold: float
    accuracy: dict[int, float] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        return sum(self.accuracy.values()) / len(self.accuracy)

    @property
    def fails(self) -> bool:
        """Whether the mean stays below the threshold even if every other seed is perfect."""
        return sum(self.accuracy.values()) + self.seeds - len(self.accuracy) < self.threshold * self.seeds

    @property
    def certain(self) -> bool:
        return len(self.accuracy) == self.seeds or self.fails

    @property
    def disputed(self) -> bool:
        """Whether some seeds reach the threshold and others do not."""
        return min(self.accuracy.values()) < self.threshold <= max(self.accuracy.values())

    @property
    def inside(self) -> bool:
        """Whether the seeds so far speak for the window."""
        return self.mean >= self.threshold


@dataclass(frozen=True)
class WindowFinder:
    """The search for the window of one configuration. It trains nothing: it is given results, and names the next runs."""

    rates: tuple[float, ...]
    """The grid, ascending."""
    seeds: tuple[int, ...]
    """The seeds; the first one is tried first."""
    threshold: float
    """The accuracy, averaged over seeds, that a window's rates reach."""
    coarse: int = 5
    """Rates of the first round."""
    resolution: float = 0.0
    """An edge is known when a rate inside and one outside are this many decades apart. 0: neighbours on the grid."""
    limit: int = 0
    """Runs at most. 0: half of the grid's, and at least one for every rate."""

    def __post_init__(self) -> None:
        if len(self.rates) < 2 or any(a >= b for a, b in pairwise(self.rates)):
            raise SpecError(f"a window search needs at least two learning rates, ascending; got {list(self.rates)}")

    @cached_property
    def max_runs(self) -> int:
        """Runs at most."""
        return self.limit or max(len(self.rates), len(self.rates) * len(self.seeds) // 2)

    def next_points(self, results: Mapping[Point, float]) -> list[Point]:
        """The points to train next, given the accuracy of those that have ended (NaN: diverged unmeasured); [] at the end."""
        return self._replay(results)[2]

    def asked(self, results: Mapping[Point, float]) -> list[Point]:
        """Every run of the rounds so far, the present one included."""
        known, _, missing = self._replay(results)
        ended = [(self.rates[i], seed) for i, point in known.items() for seed in point.accuracy]
        return ended + missing

    def found(self, results: Mapping[Point, float]) -> Found:
        """The window, as far as it is known."""
        known, rounds, missing = self._replay(results)
        runs = sum(len(point.accuracy) for point in known.values())
        if not runs:
            return Found()
        best = max(point.mean for point in known.values())
        order = sorted(known)
        edges = window([self.rates[i] for i in order], [known[i].mean for i in order], self.threshold)
        if isnan(edges.low):
            settled = len(known) == len(self.rates) and all(point.fails for point in known.values())
            return Found(best=best, settled=settled, runs=runs, rounds=rounds)
        settled = not missing and not self._round(known)
        return Found(
            edges.low, edges.high, edges.open_low, edges.open_high, best, settled=settled, runs=runs, rounds=rounds
        )

    def _replay(self, results: Mapping[Point, float]) -> tuple[dict[int, _Known], int, list[Point]]:
        """What the whole rounds so far have shown, their number, and what is missing from the next one."""
        known: dict[int, _Known] = {}
        rounds = 0
        while wanted := self._round(known)[: self.max_runs - sum(len(point.accuracy) for point in known.values())]:
            runs = [(self.rates[i], seed) for i, seed in wanted]
            if missing := [run for run in runs if run not in results]:
                return known, rounds, missing
            for (i, seed), run in zip(wanted, runs, strict=True):
                accuracy = results[run]
                point = known.setdefault(i, _Known(len(self.seeds), self.threshold))
                point.accuracy[seed] = accuracy if accuracy == accuracy else 0.0
            rounds += 1
        return known, rounds, []

    def _round(self, known: dict[int, _Known]) -> list[tuple[int, int]]:
        """The runs of the next round, as places on the grid and seeds, the most informative first."""
        if not known:
            last, n = len(self.rates) - 1, min(self.coarse, len(self.rates))
            return [(i, self.seeds[0]) for i in dict.fromkeys(round(k * last / (n - 1)) for k in range(n))]
        stretches = self._stretches(known)
        wanted = (
            [run for stretch in stretches for run in self._edges(known, *stretch)] if stretches else self._peak(known)
        )
        return list(dict.fromkeys(wanted))

    def _edges(self, known: dict[int, _Known], first: int, last: int) -> list[tuple[int, int]]:
        """What is still to be known about the edges of a stretch, and then about its inside."""
        wanted: list[tuple[int, int]] = []
        for edge, outside in ((first, _below(known, first)), (last, _above(known, last))):
            if outside is None:
                wanted += self._others(known, edge)
            elif probes := self._between(edge, outside, self.resolution):
                if known[outside].disputed:  # the seeds' edges lie near one another: the next place settles most
                    wanted += [(outside + (1 if edge > outside else -1), seed) for seed in self.seeds]
                else:
                    wanted += [(i, self.seeds[0]) for i in probes]
            else:
                wanted += self._others(known, edge) + self._others(known, outside)
        return wanted

    def _peak(self, known: dict[int, _Known]) -> list[tuple[int, int]]:
        """Where no rate passes: around the best one; then everywhere else, and another seed where a rate may still pass."""
        best = max(known, key=lambda i: known[i].mean)
        near = [_below(known, best), _above(known, best)]
        around = [i for other in near if other is not None for i in self._between(best, other, 0)]
        if around:
            return [(i, self.seeds[0]) for i in around]
        doubtful = sorted((i for i in known if not known[i].certain), key=lambda i: -known[i].mean)
        rest = [i for a, b in pairwise(sorted(known)) for i in self._between(a, b, 0)]
        return [self._others(known, i)[0] for i in doubtful] + [(i, self.seeds[0]) for i in rest]

    def _stretches(self, known: dict[int, _Known]) -> list[tuple[int, int]]:
        """First and last known place of every run of places that are inside, those left out that cannot be the widest."""
        stretches: list[list[int]] = []
        before = False
        for i in sorted(known):
            if known[i].inside and before:
                stretches[-1][1] = i
            elif known[i].inside:
                stretches.append([i, i])
            before = known[i].inside
        sure = max((self._width(a, b) for a, b in stretches), default=0.0)
        return [(a, b) for a, b in stretches if self._reach(known, a, b) > sure or self._width(a, b) == sure]

    def _width(self, a: int, b: int) -> float:
        return log10(self.rates[b] / self.rates[a])

    def _reach(self, known: dict[int, _Known], first: int, last: int) -> float:
        """The width a stretch may still turn out to have."""
        below, above = _below(known, first), _above(known, last)
        return self._width(first if below is None else below + 1, last if above is None else above - 1)

    def _between(self, a: int, b: int, resolution: float) -> list[int]:
        """Places between two, evenly spaced: as many as the resolution asks for and a round takes."""
        a, b = min(a, b), max(a, b)
        parts = min(PROBES + 1, b - a, ceil(self._width(a, b) / resolution - 1e-9) if resolution else b - a)
        return [a + round(k * (b - a) / parts) for k in range(1, parts)]

    def _others(self, known: dict[int, _Known], i: int) -> list[tuple[int, int]]:
        """The seeds that have not run at a place, where they could still change what it is."""
        return [] if known[i].certain else [(i, seed) for seed in self.seeds if seed not in known[i].accuracy]


def _below(known: Iterable[int], i: int) -> int | None:
    return max((j for j in known if j < i), default=None)


def _above(known: Iterable[int], i: int) -> int | None:
    return min((j for j in known if j > i), default=None)
