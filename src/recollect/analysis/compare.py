"""Two sets of results side by side: the configurations of both, their results, and the fields in which the two differ."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from recollect.analysis.window import THRESHOLD, windows

_SIDE = ("best", "best_lr", "decades", "open_low", "open_high")


@dataclass(frozen=True)
class Comparison:
    """Two sets of runs, by configuration."""

    runs: pd.DataFrame
    """Those of both, with the columns `side` (the name of the set) and `configuration` (the same in both)."""
    table: pd.DataFrame
    """One row per configuration: `best`, `best_lr`, `decades`, .. with the ends `_a` and `_b`, NaN where one has no such runs;
    and `difference`, the accuracy of b less that of a."""
    differ: dict[str, tuple[str, str]]
    """Fields that have one value in all of a and another in all of b."""


def compare(
    a: pd.DataFrame, b: pd.DataFrame, names: tuple[str, str] = ("a", "b"), threshold: float = THRESHOLD
) -> Comparison:
    """Compare two frames of runs. A configuration is called by the model and by the fields that vary inside a or inside b, so
    that what differs only between the two does not keep them apart."""
    fields = _fields(a, b)
    inside = [name for name in fields if any(_varies(part, name) for part in (a, b))]
    values = {name: (_only_value(a, name), _only_value(b, name)) for name in fields}
    differ = {name: both for name, both in values.items() if None not in both and both[0] != both[1]}
    sides = [
        part.assign(side=name, configuration=_labels(part, inside)) for name, part in zip(names, (a, b), strict=True)
    ]
    found = [windows(side, threshold=threshold, resamples=1).set_index("configuration")[list(_SIDE)] for side in sides]
    table = pd.concat([found[0].add_suffix("_a"), found[1].add_suffix("_b")], axis="columns")
    order = dict.fromkeys(label for side in sides for label in side["configuration"])
    table = table.loc[list(order)].reset_index()
    both = pd.concat(sides, ignore_index=True)
    return Comparison(both, table.assign(difference=table["best_b"] - table["best_a"]), differ)  # pyright: ignore


def _fields(a: pd.DataFrame, b: pd.DataFrame) -> list[str]:
    names = dict.fromkeys([*a.columns, *b.columns])
    return [
        name for name in names
        if name.startswith(("task.", "model.", "train.")) and name not in ("train.lr", "train.seed")
    ]  # fmt: skip


def _varies(part: pd.DataFrame, name: str) -> bool:
    """Whether runs of one model differ in a field."""
    return name in part and bool((part.groupby("model")[name].nunique(dropna=False) > 1).any())


def _only_value(part: pd.DataFrame, name: str) -> str | None:
    """The value of a field that all runs have, as text; None where they have several."""
    if name not in part:
        return "-"
    values = {str(value) for value in part[name]}
    return values.pop() if len(values) == 1 else None


def _labels(part: pd.DataFrame, fields: Sequence[str]) -> list[str]:
    """The model, and the fields in which runs differ; those of its mixer are in the model's name already."""
    others = [name for name in fields if not name.startswith("model.mixer") and name in part]
    named = [part[name].map(lambda value, name=name: f"{name.partition('.')[2]}={value}") for name in others]
    return [", ".join(map(str, words)) for words in zip(part["model"], *named, strict=True)]
