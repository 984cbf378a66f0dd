"""A study: the specification of runs with lists where an axis varies."""

from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import yaml
from pydantic import Field, SerializeAsAny, field_validator, model_validator

from recollect.analysis.window import THRESHOLD
from recollect.sources import with_preset, with_protocol
from recollect.spec import Spec, SpecError
from recollect.spec.reading import read_yaml
from recollect.store import DEFAULT_STORE
from recollect.study.grid import MANY, count, matches, put, unfold, zipped
from recollect.study.search.base import Search, as_search
from recollect.study.values import plain
from recollect.tasks import as_task
from recollect.train.spec import RunSpec

if TYPE_CHECKING:
    from recollect.store.store import Store
    from recollect.study.executors.base import Executor
    from recollect.study.outcome import Outcome
    from recollect.study.progress import Progress


class Study(Spec):
    """A named grid of runs. Any field inside task, model and train may be a list, an array or a range: an axis."""

    name: str = Field(default="study", pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=80)
    """What the study is called in the store and on disk."""
    task: Any = Field(default_factory=lambda: {"kind": "mqar"})
    """The task, or a list of tasks: names, mappings or Task objects."""
    model: Any = Field(default_factory=dict)
    """The model: a mapping or a ModelSpec, or a list of them. A mixer may be a name, a mapping or a class."""
    train: Any = Field(default_factory=dict)
    """Training; `protocol: okpekpe2025` (or another) fills in what is not given. `precision: auto`, also where none is given, is
    bfloat16 where the device has it, else float32."""
    tests: Any = Field(default_factory=list)
    """Further tasks that every run is measured on at its end."""
    zip: list[dict[str, Any]] = Field(default_factory=list)
    """Groups of fields, by dotted path, whose lists vary together: `{task.length: [64, 128], task.pairs: [4, 8]}`."""
    exclude: list[dict[str, Any]] = Field(default_factory=list)
    """Runs to leave out: those that have all the values of one entry, by dotted path."""
    search: SerializeAsAny[Search] | str | dict[str, Any] | None = None
    """`window`: train only the runs of the grid that are needed to find each configuration's learning-rate window."""
    lr: Any = None
    """Short for `train.lr`: a learning rate, or an axis of them."""
    seed: Any = None
    """Short for `train.seed`: a seed, or an axis of them."""

    @model_validator(mode="before")
    @classmethod
    def _as_plain_data(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        data = {name: value if name == "search" else plain(value, str(name)) for name, value in data.items()}
        for name in ("lr", "seed"):
            if data.get(name) is None:
                continue
            train = data.get("train", {})
            if not isinstance(train, Mapping) or name in train:
                raise SpecError(f"{name} and train.{name} both say what to try; give one of them")
            data["train"] = {**train, name: data.pop(name)}
        return data

    @field_validator("search", mode="before")
    @classmethod
    def _search_by_name(cls, value: Any) -> Any:
        return as_search(value)

    @field_validator("task", "model", "train")
    @classmethod
    def _is_mapping(cls, value: Any) -> Any:
        if isinstance(value, str | list | Mapping):
            return value
        raise SpecError(f"expected a mapping, a name or a list, not {value!r}")

    @model_validator(mode="after")
    def _one_grid_of_rates(self) -> Self:
        if self.strategy is None:
            return self
        given = self.strategy.model_fields_set
        for path, (_, fields) in self.strategy.axes().items():
            if given.intersection(fields) and self._gives(path):
                named = ", ".join(f"search.{name}" for name in fields if name in given)
                raise SpecError(f"{named} and {path} both say what to try; give one of them")
        return self

    @property
    def strategy(self) -> Search | None:
        """The search, or None where the whole grid is trained."""
        return self.search if isinstance(self.search, Search) else None

    @property
    def threshold(self) -> float:
        """The accuracy that counts as solved in the study's tables and pictures."""
        return self.strategy.threshold if self.strategy else THRESHOLD

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """A study from a YAML file."""
        path = Path(path)
        if not path.is_file():
            raise SpecError(f"{path}: no such study file")
        try:
            return cls.from_yaml(path.read_text(encoding="utf-8"), path.stem)
        except (SpecError, UnicodeDecodeError) as error:
            raise SpecError(f"{path}: {error}") from None

    @classmethod
    def from_yaml(cls, text: str, name: str = "study") -> Self:
        """A study from the text of a YAML file; `name` is used where the text gives none."""
        data = read_yaml(text)
        if not isinstance(data, dict):
            raise SpecError(f"a study is a mapping with name, task, model and train; got {data!r:.40}")
        return cls(**{"name": name, **data})

    def to_yaml(self) -> str:
        """The study as a file that `load` reads."""
        data = {"name": self.name, **self.model_dump(mode="json", exclude_defaults=True)}
        if self.strategy:
            data["search"] = {"kind": self.strategy.kind, **data["search"]}
        return yaml.safe_dump(data, sort_keys=False)

    def size(self) -> int:
        """How many runs the grid has before exclusions."""
        return sum(count(grid) for grid in self._grids())

    def check_size(self, allow_many: bool) -> None:
        """Refuse a grid that is too large to have been meant, unless the user says that it was."""
        if not allow_many and (size := self.size()) > MANY:
            raise SpecError(
                f"study {self.name!r} unfolds into {size:,} runs, more than {MANY:,}; add --yes if that is meant"
            )

    def runs(self, precision: str = "float32") -> list[RunSpec]:
        """Every run, each once, in the order of the grid. A large grid takes seconds: expand it once and pass the list on.

        `precision` is that of the runs for which the study gives none, or `auto`: the device decides it (study/precision.py).
        """
        runs: dict[str, RunSpec] = {}
        for grid in self._grids():
            checked: dict[Any, Any] = {}
            for point in unfold(grid):
                run = self._run(point, precision, checked)
                if not any(matches(run.model_dump(mode="json"), conditions) for conditions in self.exclude):
                    runs.setdefault(run.id, run)
        if not runs:
            raise SpecError(f"study {self.name!r}: the exclusions leave no runs")
        return list(runs.values())

    def run(
        self,
        *,
        store: "Store | str | Path" = DEFAULT_STORE,
        executor: "Executor | str" = "local",
        device: str = "auto",
        workers: int = 0,
        cohort: int = 0,
        progress: "bool | Progress" = True,
        keep_weights: bool = False,
        stop_after: float = 0.0,
        **options: Any,
    ) -> "Outcome":
        """Train what the store does not have yet, and return the results; every option is that of `recollect.run`."""
        from recollect.study.run import run  # it knows studies, so they can know it only now

        return run(
            self, store=store, executor=executor, device=device, workers=workers, cohort=cohort, progress=progress,
            keep_weights=keep_weights, stop_after=stop_after, **options,
        )  # fmt: skip

    def _grids(self) -> list[dict[str, Any]]:
        base: dict[str, Any] = {"task": self.task, "model": self.model, "train": self.train, "tests": self.tests}
        for path, (values, _) in self.strategy.axes().items() if self.strategy else ():
            if not self._gives(path):
                base = put(base, path, values)
        return [reduce(lambda grid, item: put(grid, *item), choice.items(), base) for choice in zipped(self.zip)]

    def _gives(self, path: str) -> bool:
        """Whether the study file has a field of its own for a path inside train."""
        trains = self.train if isinstance(self.train, list) else [self.train]
        inside = any(isinstance(train, Mapping) and path.removeprefix("train.") in train for train in trains)
        return inside or any(path in group for group in self.zip)

    def _run(self, point: dict[str, Any], precision: str, checked: dict[Any, Any]) -> RunSpec:
        """The run at a point. The points of a grid share their parts, which are the same objects: `checked` has the parts of
        earlier runs by the ids of these objects, so that a part is checked once and not once per run."""
        for part in ("model", "train"):
            if not isinstance(point[part], Mapping):
                raise SpecError(f"study {self.name!r}: {part}: expected a mapping, got {point[part]!r}")
        keys: dict[str, Any] = {part: (part, id(value)) for part, value in point.items()}
        keys["train"] = *keys["train"], keys["task"]  # a protocol depends on the task
        given = {part: checked.get(key, point[part]) for part, key in keys.items()}
        try:
            given["task"] = as_task(given["task"])
            if keys["model"] not in checked:
                given["model"] = with_preset(point["model"])
            if keys["train"] not in checked:
                given["train"] = with_protocol(point["train"], given["task"])
                if given["train"].get("precision", "auto") == "auto":
                    given["train"]["precision"] = precision
            run = RunSpec(**given)
        except SpecError as error:
            raise SpecError(f"study {self.name!r}: {error}") from None
        checked.update({key: getattr(run, part) for part, key in keys.items()})
        return run


def distinct(grids: Sequence[Sequence[RunSpec]]) -> list[RunSpec]:
    """The runs of several grids, each once."""
    return list({run.id: run for runs in grids for run in runs}.values())
