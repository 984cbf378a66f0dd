"""Short names that tell runs apart."""

from collections.abc import Iterator, Mapping
from typing import Any

from recollect.train.run import RunSpec


def labels(runs: list[RunSpec]) -> list[str]:
    """The model's title of each run, and the fields in which the runs differ; rate and seed are not looked at."""
    fields = [dict(_fields(run.model_dump(mode="json"))) for run in runs]
    names = dict.fromkeys(name for flat in fields for name in flat)
    telling = [
        name for name in names
        if not name.startswith(("model.mixer", "model.blocks", "model.pattern", "model.positions", "train.lr", "train.seed"))
        and len({str(flat.get(name)) for flat in fields}) > 1
    ]  # fmt: skip
    return [
        " ".join([run.model.title, *(f"{name.partition('.')[2]}={flat.get(name)}" for name in telling)])
        for run, flat in zip(runs, fields, strict=True)
    ]


def _fields(node: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in node.items():
        if isinstance(value, Mapping):
            yield from _fields(value, f"{path}{name}.")
        else:
            yield path + name, value
