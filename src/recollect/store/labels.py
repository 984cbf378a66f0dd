"""Short names of configurations: all of a run except its learning rate and seed."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recollect.train.spec import RunSpec

_NOT_SHOWN = ("model.mixer", "model.blocks", "model.pattern", "train.lr", "train.seed")
"""What the title has already, and what a configuration leaves open."""


def run_labels(runs: "Sequence[RunSpec]") -> list[str]:
    """The label of each run, among these."""
    return labels([run.model.title for run in runs], [run.model_dump(mode="json") for run in runs])


def configurations(runs: "Sequence[RunSpec]") -> "dict[str, list[RunSpec]]":
    """The runs by configuration: all that a run is but its learning rate and seed."""
    groups: dict[str, list[RunSpec]] = {}
    for run in runs:
        data = run.canonical()
        train = {name: value for name, value in data["train"].items() if name not in ("lr", "seed")}
        groups.setdefault(json.dumps({**data, "train": train}, sort_keys=True), []).append(run)
    return dict(zip(run_labels([group[0] for group in groups.values()]), groups.values(), strict=True))


def labels(titles: Sequence[str], specs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The model's title, and the fields in which runs of the same title differ. A run that does not have a field, as one that is
    older than it, differs from no other in it."""
    flat = [dict(_fields(spec)) for spec in specs]
    names = [name for name in dict.fromkeys(n for fields in flat for n in fields) if not name.startswith(_NOT_SHOWN)]
    seen: dict[tuple[str, str], set[str]] = {}
    for title, fields in zip(titles, flat, strict=True):
        for name in fields:
            seen.setdefault((title, name), set()).add(str(fields[name]))
    differing = [name for name in names if any(len(seen.get((title, name), ())) > 1 for title in set(titles))]
    return [
        ", ".join([title, *(f"{name.partition('.')[2]}={fields[name]}" for name in differing if name in fields)])
        for title, fields in zip(titles, flat, strict=True)
    ]


def _fields(node: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in node.items():
        if isinstance(value, Mapping):
            yield from _fields(value, f"{path}{name}.")
        else:
            yield path + name, value
