"""A study in words: its question, and what no source states."""

from collections.abc import Sequence
from typing import Any

from recollect.sources import SOURCES


def question(runs: dict[str, list[Any]], given: dict[str, Any]) -> str:
    """The question of a study, in a sentence, from its runs (by column) and its file."""
    if not runs:
        return "The question is in the specification."
    task = given.get("task")
    names = dict.fromkeys([*(task if isinstance(task, dict) else ()), "length", "pairs"])
    fields = [(name, runs.get(f"task.{name}", [None])) for name in names if name != "kind"]
    settings = ", ".join(f"{name} {_values(values)}" for name, values in fields if any(v is not None for v in values))
    labels, rates, seeds = (list(dict.fromkeys(runs[c])) for c in ("configuration", "train.lr", "train.seed"))
    who = f"does {labels[0]}" if len(labels) == 1 else f"do {len(labels)} configurations"
    where = f"{_values(runs['task.kind'])} ({settings})" if settings else _values(runs["task.kind"])
    few = f"at learning rate {_values(rates)}"
    at = few if len(rates) == 1 else f"over {len(rates)} learning rates ({_values(rates)})"
    return f"How well {who} recall on {where}, {at} with {len(seeds)} seed{'s' if len(seeds) > 1 else ''}?"


def unknowns(given: dict[str, Any]) -> list[str]:
    """What the source of the protocol that a study names does not state about training."""
    train = given.get("train")
    parts = train if isinstance(train, list) else [train]
    named = {part.get("protocol") for part in parts if isinstance(part, dict)}
    unstated = ((name, unknown) for name in SOURCES if name in named for unknown in SOURCES.find(name).unknown)
    return [
        f"{name}: {unknown.name} is {unknown.chosen}; {unknown.why}"
        for name, unknown in unstated
        if not unknown.name.startswith(("task", "model"))
    ]


def _values(values: Sequence[Any]) -> str:
    """A few values, or the range of many."""
    several = list(dict.fromkeys(value for value in values if value is not None))
    if len(several) > 3 and all(isinstance(value, int | float) for value in several):
        return f"{min(several):g} to {max(several):g}"
    return ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in several)
