"""A study: the specification of runs with lists where an axis varies."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, ValidationError, field_validator

from recollect.spec import Spec, SpecError, explain
from recollect.study.grid import count, matches, put, unfold, zipped
from recollect.tasks import as_task
from recollect.train.protocols import with_protocol
from recollect.train.run import RunSpec

MANY = 1_000_000
"""More runs than this are not unfolded unless asked for twice."""


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
        return yaml.safe_dump(self.model_dump(mode="json", exclude_defaults=True), sort_keys=False)

    def size(self) -> int:
        """How many runs the grid has before exclusions."""
        return sum(count(grid) for grid in self._grids())

    def check_size(self, allow_many: bool) -> None:
        """Refuse a grid that is too large to have been meant, unless told that it was."""
        if (size := self.size()) > MANY and not allow_many:
            raise SpecError(
                f"study {self.name!r} unfolds into {size:,} runs, more than {MANY:,}; add --yes if that is meant"
            )

    def runs(self) -> list[RunSpec]:
        """Every run, each once, in the order of the grid."""
        found: dict[str, RunSpec] = {}
        for grid in self._grids():
            for point in unfold(grid):
                run = self._run(point)
                if not any(matches(run.model_dump(mode="json"), conditions) for conditions in self.exclude):
                    found.setdefault(run.id, run)
        if not found:
            raise SpecError(f"study {self.name!r}: the exclusions leave no runs")
        return list(found.values())

    def _grids(self) -> list[dict[str, Any]]:
        base = {"task": self.task, "model": self.model, "train": self.train, "tests": self.tests}
        grids = []
        for choice in zipped(self.zip):
            grid = base
            for path, value in choice.items():
                grid = put(grid, path, value)
            grids.append(grid)
        return grids

    def _run(self, point: dict[str, Any]) -> RunSpec:
        try:
            task = as_task(point["task"])
            return RunSpec(**{**point, "task": task, "train": with_protocol(point["train"], task)})
        except ValidationError as error:
            raise SpecError(f"study {self.name!r}: {explain(error)}") from None
