"""Curves and slices for a page: as much of them as a page can hold, and what was left out."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from recollect.store.store import Store

NUMBERS = 200_000
"""How many numbers the curves of one page may have: about 3 MB."""
MOST, FEWEST = 200, 20
"""Points of one curve: at most, and at least where curves have to be thinned to fit."""
CELLS, STEPS, VALUES = 100_000, 60, 96
"""Numbers of one study's slices at most, their measurements at most, and a tag's values at most (more are joined)."""


@dataclass
class Budget:
    """How many curves a page of so many runs holds, and how long they are."""

    runs: int
    columns: int = 10
    points: int = field(init=False)
    share: float = field(init=False)
    """Of the runs, those with a curve."""

    def __post_init__(self) -> None:
        fits = NUMBERS // (max(self.runs, 1) * self.columns)
        self.points = min(MOST, max(FEWEST, fits))
        self.share = min(1.0, NUMBERS / (max(self.runs, 1) * self.columns * self.points))


def evenly(items: Sequence[Any], most: int) -> list[Any]:
    """At most so many of the items, spread evenly, the last one among them."""
    if len(items) <= most:
        return list(items)
    return [items[i] for i in np.unique(np.linspace(len(items) - 1, 0, most).round().astype(int))]


def curves_content(store: Store, ids: Sequence[str], best: Sequence[int], budget: Budget) -> dict[str, Any]:
    """The curves of a study's runs, by column; `run` is the run's place among `ids`. The best ones come before others."""
    most = max(1, round(budget.share * len(ids)))
    first = evenly(best, most)
    rest = sorted(set(range(len(ids))) - set(first))
    chosen: list[int] = sorted([*first, *evenly(rest, most - len(first))])
    curves, columns, longest = [], {}, 0
    for i in chosen:
        curve = store.curve(ids[i])
        if points := evenly(curve, budget.points):
            names = list(dict.fromkeys(name for point in points for name in point))
            columns |= dict.fromkeys(names)
            curves.append({"run": i, **{name: [point.get(name) for point in points] for name in names}})
            longest = max(longest, len(curve))
    said = "One line per run, measured on held-out rows during training."
    if longest > budget.points:
        said += f" Thinned: at most {budget.points} of up to {longest} measurements per run are on this page."
    if len(chosen) < len(ids):
        said += f" Curves of {len(chosen)} of {len(ids)} runs are on this page: those at the best rates first."
    return {"curves": curves, "curve_columns": list(columns), "curves_said": said}


def slices_content(store: Store, ids_of: dict[str, list[str]]) -> dict[str, Any]:
    """Right and scored answers by tag, value and step: of each configuration, its runs summed."""
    found = []
    for name, ids in ids_of.items():
        for tag, table in _summed(store, ids).items():
            found.append({"configuration": name, "tag": tag, "table": _joined(table)})
    width = sum(len({value for row in one["table"].values() for value in row}) for one in found)
    steps = max(1, min(STEPS, CELLS // max(1, 2 * width)))
    thinned = any(len(one["table"]) > steps for one in found)
    said = f"Thinned: at most {steps} measurements are on this page." if thinned else ""
    return {"slices": [_matrix(one, steps) for one in found], "slices_said": said}


Counts = dict[int, dict[int, tuple[int, int]]]
"""By step and value: how many were scored, how many were right."""


def _summed(store: Store, ids: list[str]) -> dict[str, Counts]:
    tags: dict[str, Counts] = {}
    for id in ids:
        for part in store.slices(id):
            row = tags.setdefault(part.tag, {}).setdefault(part.step, {})
            for value, count, right in zip(part.values, part.counts, part.right, strict=True):
                before = row.get(value, (0, 0))
                row[value] = before[0] + count, before[1] + right
    return tags


def _joined(table: Counts) -> dict[int, dict[str, tuple[int, int]]]:
    """The table by ranges of neighbouring values, where there are more values than a drawing can show."""
    values = sorted({value for row in table.values() for value in row})
    label: dict[int, str] = {}
    for part in np.array_split(np.array(values, dtype=int), min(VALUES, max(1, len(values)))):
        name = str(part[0]) if len(part) == 1 else f"{part[0]}–{part[-1]}"
        label |= {int(value): name for value in part}
    joined: dict[int, dict[str, tuple[int, int]]] = {}
    for step, row in table.items():
        into = joined.setdefault(step, dict.fromkeys(label.values(), (0, 0)))
        for value, (count, right) in row.items():
            before = into[label[value]]
            into[label[value]] = before[0] + count, before[1] + right
    return joined


def _matrix(one: dict[str, Any], most: int) -> dict[str, Any]:
    table = one.pop("table")
    steps = evenly(sorted(table), most)
    values = list(table[steps[-1]])
    parts = {
        name: [[table[step][value][k] for value in values] for step in steps]
        for k, name in enumerate(("counts", "right"))
    }
    return {**one, "steps": steps, "values": values, **parts}
