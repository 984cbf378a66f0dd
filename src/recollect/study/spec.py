"""A study: the specification of runs with lists where an axis varies."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log10
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml
from pydantic import Field, PrivateAttr, ValidationError, field_validator, model_validator

from recollect.models.presets import with_preset
from recollect.spec import Spec, SpecError, explain, nearest
from recollect.store import frames
from recollect.study.grid import axis, count, matches, put, unfold, zipped
from recollect.tasks import as_task
from recollect.train.protocols import with_protocol
from recollect.train.spec import RunSpec

if TYPE_CHECKING:
    from pandas import DataFrame

    from recollect.store.store import Store

MANY = 1_000_000
"""More runs than this are not unfolded unless asked for twice."""


class SearchSpec(Spec):
    """How windows are searched for: `search: window`, or a mapping with any of these fields."""

    kind: Literal["window"] = "window"
    """What is searched for."""
    threshold: float = Field(0.95, gt=0, le=1)
    """The accuracy, averaged over seeds, that a window's rates reach."""
    low: float = Field(1e-5, gt=0)
    """The smallest rate of the grid, where `train.lr` does not give the grid."""
    high: float = Field(1e-1, gt=0)
    """The largest rate of the grid."""
    points: int = Field(17, ge=2)
    """Rates of the grid, evenly spaced on a logarithmic axis."""
    seeds: tuple[int, ...] = (42, 123, 777)
    """The seeds, where `train.seed` does not give them; the first one scouts."""
    coarse: int = Field(5, ge=2)
    """Rates of the first round."""
    resolution: float = Field(0.0, ge=0)
    """An edge is known when a rate inside and one outside are this many decades apart. 0: neighbours on the grid."""
    max_runs: int = Field(0, ge=0)
    """Runs of one configuration at most. 0: half of the grid's, and at least one for every rate."""

    @field_validator("seeds")
    @classmethod
    def _some_seeds(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if not seeds or len(set(seeds)) != len(seeds):
            raise SpecError(f"a search needs at least one seed, each once; got {list(seeds)}")
        return seeds

    @model_validator(mode="after")
    def _makes_sense(self) -> "SearchSpec":
        if self.low >= self.high:
            raise SpecError(f"low {self.low:g} must be below high {self.high:g}")
        if self.resolution >= log10(self.high / self.low):
            raise SpecError(
                f"resolution {self.resolution:g} is as wide as the {log10(self.high / self.low):g} decades searched"
            )
        if self.max_runs and self.max_runs < self.coarse:
            raise SpecError(f"max_runs {self.max_runs} is less than the {self.coarse} runs of the first round")
        return self


class Study(Spec):
    """A named grid of runs. Any field inside task, model and train may be a list or a range: an axis."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=80)
    """What the study is called in the store and on disk."""
    task: Any = Field(default_factory=lambda: {"kind": "mqar"})
    """The task, or a list of tasks."""
    model: Any = Field(default_factory=dict)
    """The model."""
    train: Any = Field(default_factory=dict)
    """Training; `protocol: okpekpe2025` (or another) fills in what is not given."""
    tests: list[Any] = Field(default_factory=list)
    """Further tasks that every run is measured on at its end."""
    zip: list[dict[str, Any]] = Field(default_factory=list)
    """Groups of fields, by dotted path, whose lists vary together: `{task.length: [64, 128], task.pairs: [4, 8]}`."""
    exclude: list[dict[str, Any]] = Field(default_factory=list)
    """Runs to leave out: those that have all the values of one entry, by dotted path."""
    search: SearchSpec | None = None
    """`window`: train only the runs of the grid that are needed to find each configuration's learning-rate window."""
    _chosen: list[RunSpec] | None = PrivateAttr(None)

    @field_validator("search", mode="before")
    @classmethod
    def _search_by_name(cls, value: Any) -> Any:
        if isinstance(value, str):
            value = {"kind": value}
        if isinstance(value, Mapping) and value.get("kind", "window") != "window":
            raise SpecError(f"unknown search {value['kind']!r}: {nearest(str(value['kind']), ['window'])}")
        return value

    @model_validator(mode="after")
    def _one_grid_of_rates(self) -> "Study":
        given = self.search.model_fields_set if self.search else set()
        for path, fields in (("train.lr", ("low", "high", "points")), ("train.seed", ("seeds",))):
            if given.intersection(fields) and self._gives(path):
                named = ", ".join(f"search.{name}" for name in fields if name in given)
                raise SpecError(f"{named} and {path} both say what to try; give one of them")
        return self

    @field_validator("task", "model", "train")
    @classmethod
    def _is_mapping(cls, value: Any) -> Any:
        if isinstance(value, str | list | Mapping):
            return value
        raise SpecError(f"expected a mapping, a name or a list, not {value!r}")

    @classmethod
    def load(cls, path: str | Path) -> "Study":
        """A study from a YAML file."""
        path = Path(path)
        if not path.is_file():
            raise SpecError(f"{path}: no such study file")
        try:
            data = yaml.safe_load(path.read_text())
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise SpecError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
        if not isinstance(data, dict):
            raise SpecError(
                f"{path}: a study is a mapping with name, task, model and train; this is {type(data).__name__}"
            )
        try:
            return cls(**{"name": path.stem, **data})
        except ValidationError as error:
            raise SpecError(f"{path}: {explain(error)}") from None

    def to_yaml(self) -> str:
        """The study as a file that `load` reads."""
        data = self.model_dump(mode="json", exclude_defaults=True)
        if self.search:
            data["search"] = {"kind": self.search.kind, **data["search"]}
        return yaml.safe_dump(data, sort_keys=False)

    def size(self) -> int:
        """How many runs the grid has before exclusions."""
        return sum(count(grid) for grid in self._grids())

    def check_size(self, allow_many: bool) -> None:
        """Refuse a grid that is too large to have been meant, unless told that it was."""
        if (size := self.size()) > MANY and not allow_many:
            raise SpecError(
                f"study {self.name!r} unfolds into {size:,} runs, more than {MANY:,}; add --yes if that is meant"
            )

    def only(self, runs: list[RunSpec]) -> "Study":
        """The same study, of which these runs are meant."""
        study = self.model_copy()
        study._chosen = list(runs)
        return study

    def runs(self) -> list[RunSpec]:
        """Every run, each once, in the order of the grid."""
        if self._chosen is not None:
            return list(self._chosen)
        found: dict[str, RunSpec] = {}
        for grid in self._grids():
            for point in unfold(grid):
                run = self._run(point)
                if not any(matches(run.model_dump(mode="json"), conditions) for conditions in self.exclude):
                    found.setdefault(run.id, run)
        if not found:
            raise SpecError(f"study {self.name!r}: the exclusions leave no runs")
        return list(found.values())

    def run(self, device: str = "auto", store: str | Path = "results/store.sqlite", cohort: int = 0) -> "Ran":
        """Train what the store does not have yet, or search where the study says so; from Python, without progress."""
        from recollect.store.store import Store
        from recollect.study.run import run_study
        from recollect.study.search.rounds import (
            search_windows,  # what runs studies knows them, so they can know it only now
        )

        opened = Store(store, create=True)
        if self.search:
            failed = search_windows(
                self, opened, lambda chosen: run_study(chosen, opened, device, cohort).failed
            ).failed
        else:
            failed = run_study(self, opened, device, cohort).failed
        return Ran(self.name, opened, failed)

    def _grids(self) -> list[dict[str, Any]]:
        base = {"task": self.task, "model": self.model, "train": self.train, "tests": self.tests}
        for path, values in self._searched().items():
            base = put(base, path, values)
        grids = []
        for choice in zipped(self.zip):
            grid = base
            for path, value in choice.items():
                grid = put(grid, path, value)
            grids.append(grid)
        return grids

    def _gives(self, path: str) -> bool:
        """Whether the study file has a field of its own for a path inside train."""
        trains = self.train if isinstance(self.train, list) else [self.train]
        inside = any(isinstance(train, Mapping) and path.removeprefix("train.") in train for train in trains)
        return inside or any(path in group for group in self.zip)

    def _searched(self) -> dict[str, list[Any]]:
        """The axes that a search brings along, where the study does not have them."""
        if self.search is None:
            return {}
        rates = axis("logspace", self.search.low, self.search.high, self.search.points)
        axes = {"train.lr": rates, "train.seed": list(self.search.seeds)}
        return {path: values for path, values in axes.items() if not self._gives(path)}

    def _run(self, point: dict[str, Any]) -> RunSpec:
        try:
            task = as_task(point["task"])
            fields = {"task": task, "model": with_preset(point["model"]), "train": with_protocol(point["train"], task)}
            return RunSpec(**{**point, **fields})
        except ValidationError as error:
            raise SpecError(f"study {self.name!r}: {explain(error)}") from None


@dataclass(frozen=True)
class Ran:
    """A study that has been run, and where its results are."""

    name: str
    store: "Store"
    failed: dict[str, str]
    """Runs that failed for good: id and error."""

    def results(self) -> "DataFrame":
        """One row a run."""
        return frames.runs_frame(self.store, self.name)

    def curves(self) -> "DataFrame":
        """One row a run and measurement."""
        return frames.curves_frame(self.store, self.name)

    def slices(self) -> "DataFrame":
        """One row a run, measurement, tag and value of the tag."""
        return frames.slices_frame(self.store, self.name)
