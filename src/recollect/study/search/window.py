"""`search: window`: train only the runs that are needed to find each configuration's learning-rate window."""

from collections.abc import Collection, Mapping, Sequence
from math import log10
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from recollect.analysis.window import THRESHOLD
from recollect.spec import SpecError
from recollect.store.labels import configurations
from recollect.study.grid import LONGEST, axis
from recollect.study.search.base import Search
from recollect.study.search.finder import Found, Point, WindowFinder
from recollect.study.search.forecast import likely_points
from recollect.train.spec import RunSpec


class WindowSearch(Search):
    """How windows are searched for: `search: window`, or a mapping with any of these fields."""

    kind: str = "window"
    """What is searched for."""
    threshold: float = Field(default=THRESHOLD, gt=0, le=1)
    """The accuracy, averaged over seeds, that a window's rates reach."""
    low: float = Field(default=1e-5, gt=0)
    """The smallest rate of the grid, where `train.lr` does not give the grid."""
    high: float = Field(default=1e-1, gt=0)
    """The largest rate of the grid."""
    points: int = Field(default=17, ge=2, le=LONGEST)
    """Rates of the grid, evenly spaced on a logarithmic axis."""
    seeds: tuple[int, ...] = (42, 123, 777)
    """The seeds, where `train.seed` does not give them; the first one is tried first."""
    coarse: int = Field(default=5, ge=2)
    """Rates of the first round."""
    resolution: float = Field(default=0.0, ge=0)
    """An edge is known when a rate inside and one outside are this many decades apart. 0: neighbours on the grid."""
    max_runs: int = Field(default=0, ge=0)
    """Runs per configuration at most. 0: half of the grid's, and at least one for every rate."""

    @field_validator("seeds")
    @classmethod
    def _some_seeds(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if not seeds or len(set(seeds)) != len(seeds):
            raise SpecError(f"a search needs at least one seed, each once; got {list(seeds)}")
        return seeds

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.low >= self.high:
            raise SpecError(f"low {self.low:g} must be below high {self.high:g}")
        if self.resolution >= log10(self.high / self.low):
            raise SpecError(
                f"resolution {self.resolution:g} is as wide as the {log10(self.high / self.low):g} decades searched"
            )
        if self.max_runs and self.max_runs < self.coarse:
            raise SpecError(f"max_runs {self.max_runs} is less than the {self.coarse} runs of the first round")
        return self

    def axes(self) -> dict[str, tuple[list[Any], tuple[str, ...]]]:
        """Rates and seeds."""
        rates = axis("logspace", self.low, self.high, self.points)
        return {"train.lr": (list(rates), ("low", "high", "points")), "train.seed": (list(self.seeds), ("seeds",))}

    def wanted(self, runs: Sequence[RunSpec], accuracy: Mapping[str, float], failed: Collection[str]) -> list[RunSpec]:
        """The runs of every round so far; a configuration with a failed run is searched no further."""
        wanted: list[RunSpec] = []
        for finder, grid in self._finders(runs).values():
            asked = {grid[point].id for point in finder.asked(_results(grid, accuracy))}
            if asked & set(failed):
                asked &= accuracy.keys()
            wanted += [run for run in grid.values() if run.id in asked]
        return wanted

    def likely(self, runs: Sequence[RunSpec], accuracy: Mapping[str, float]) -> dict[str, float]:
        """The runs around the edges that are not known yet."""
        found: dict[str, float] = {}
        for finder, grid in self._finders(runs).values():
            ahead = likely_points(finder, _results(grid, accuracy))
            found |= {grid[point].id: share for point, share in ahead.items()}
        return found

    def found(self, runs: Sequence[RunSpec], accuracy: Mapping[str, float]) -> dict[str, Found]:
        """The window of each configuration, as far as it is known."""
        return {label: finder.found(_results(grid, accuracy)) for label, (finder, grid) in self._finders(runs).items()}

    def left(self, runs: Sequence[RunSpec], accuracy: Mapping[str, float]) -> list[RunSpec]:
        """The most runs that the search may still train: what a plan counts."""
        left: list[RunSpec] = []
        for finder, grid in self._finders(runs).values():
            results = _results(grid, accuracy)
            if finder.next_points(results):
                allowed = finder.max_runs - finder.found(results).runs
                left += [run for run in grid.values() if run.id not in accuracy][:allowed]
        return left

    def describe(self, found: Mapping[str, Found]) -> str:
        """How many windows there are, and how many searches ran out of runs."""
        text = f"{sum(window.exists for window in found.values())} of {len(found)} have a window"
        unsettled = sum(not window.settled for window in found.values())
        return text + (f", {unsettled} not settled within the runs allowed" if unsettled else "")

    def _finders(self, runs: Sequence[RunSpec]) -> dict[str, tuple[WindowFinder, dict[Point, RunSpec]]]:
        return {label: self._finder(label, group) for label, group in configurations(runs).items()}

    def _finder(self, label: str, runs: Sequence[RunSpec]) -> tuple[WindowFinder, dict[Point, RunSpec]]:
        rates = sorted({run.train.lr for run in runs})
        seeds = dict.fromkeys(run.train.seed for run in runs)
        if len(runs) != len(rates) * len(seeds):
            raise SpecError(
                f"search: {label} has {len(runs)} runs and not {len(rates)} rates x {len(seeds)} seeds; "
                "a search needs every seed at every rate, so leave rates and seeds out of zip and exclude"
            )
        finder = WindowFinder(tuple(rates), tuple(seeds), self.threshold, self.coarse, self.resolution, self.max_runs)
        return finder, {(run.train.lr, run.train.seed): run for run in runs}


def _results(grid: Mapping[Point, RunSpec], accuracy: Mapping[str, float]) -> dict[Point, float]:
    """Which runs of a configuration have ended, and how well they did."""
    return {point: accuracy[run.id] for point, run in grid.items() if run.id in accuracy}
