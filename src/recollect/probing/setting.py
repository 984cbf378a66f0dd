"""What a probe trains: a small recall task, and a search for each mixer's learning-rate window on it.

The defaults are small enough for two CPU cores and a minute or two, and distinguish mixers: of the known ones attention with
a short convolution on its keys has a window of two decades, RWKV-7, DeltaNet and Based a narrow one, Mamba2 none yet.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recollect.study.spec import Study

Fields = dict[str, Any]
RATES = 17
"""Learning rates of the grid: four per decade."""


@dataclass(frozen=True)
class ProbeSetting:
    """All that the models of a probe share."""

    task: Fields
    width: int = 32
    layers: tuple[int, ...] = (1,)
    steps: int = 400
    seeds: int = 2

    @property
    def task_name(self) -> str:
        """The task's name without the file that it is in."""
        return str(self.task["kind"]).rpartition(":")[2]

    def __str__(self) -> str:
        fields = [f"{field} {value}" for field, value in self.task.items() if field != "kind"]
        return ", ".join([self.task_name, *fields, f"width {self.width}", f"at most {self.steps} steps"])


def small_task(kind: Any, given: Mapping[str, int | None]) -> Fields:
    """The task named, or given as a mapping, with the fields given; MQAR is smaller than its own defaults."""
    fields = dict(kind) if isinstance(kind, Mapping) else {"kind": str(kind)}
    fields |= {name: value for name, value in given.items() if value is not None}
    if fields.get("kind") == "mqar":
        length = fields.get("length", 32)
        fields = {"kind": "mqar", "length": length, "pairs": 4, "vocab": 2 * length, **fields}
    return fields


def baseline(mixer: Any) -> Fields:
    """A known mixer as a model: attention gets rotary positions, with which it learns quickest here."""
    kind = mixer.get("kind") if isinstance(mixer, Mapping) else mixer
    return {"mixer": mixer, **({"positions": "rotary"} if kind == "attention" else {})}


def probe_study(name: str, models: Sequence[Fields], setting: ProbeSetting) -> Study:
    """A window search for each model, at each depth."""
    shape = {"width": setting.width, "layers": list(setting.layers), "tie": False}
    return Study(
        name=name,
        task=setting.task,
        model=[{**model, **shape} for model in models],
        train={
            "steps": setting.steps, "batch": 64, "eval_every": max(1, setting.steps // 16), "eval_rows": 128,
            "test_rows": 512, "stop_at": 0.99, "stop_hopeless": 0.5,
        },
        search={
            "low": 1e-5, "high": 1e-1, "points": RATES, "coarse": 5, "seeds": tuple(range(1, setting.seeds + 1)),
            "max_runs": max(RATES, 9 * setting.seeds),
        },  # pyright: ignore[reportArgumentType]
    )  # fmt: skip
