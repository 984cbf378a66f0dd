"""A study file unfolds into runs: any field that is a list, or a range such as `logspace(1e-5, 1e-1, 17)`, is an axis."""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from recollect.spec import SpecError

LISTS = ("tests", "parts", "weights")
"""Fields whose value is a list by itself: there a list of lists is an axis."""
MANY = 1_000_000
"""More runs than this are not expanded unless the user says that they are meant."""
LONGEST = 100_000
"""Values of a range at most."""
_RANGE = re.compile(r"^\s*(logspace|linspace|range)\s*\((.*)\)\s*$")


def unfold(node: Any, path: str = "") -> list[Any]:
    """Every concrete version of a nested value, the last axis varying fastest."""
    if isinstance(node, Mapping):
        columns = [unfold(value, f"{path}.{key}" if path else str(key)) for key, value in node.items()]
        return [dict(zip(node, choice, strict=True)) for choice in itertools.product(*columns)]
    choices = _choices(node, path)
    return [node] if choices is None else [item for choice in choices for item in unfold(choice, path)]


def count(node: Any, path: str = "") -> int:
    """How many versions `unfold` would give, without making them."""
    if isinstance(node, Mapping):
        return math.prod(count(value, f"{path}.{key}" if path else str(key)) for key, value in node.items())
    choices = _choices(node, path)
    return 1 if choices is None else sum(count(choice, path) for choice in choices)


def _choices(node: Any, path: str) -> list[Any] | None:
    """What an axis goes through, or None where the value is no axis."""
    if isinstance(node, str):
        match = _RANGE.match(node)
        return None if match is None else _range(match[1], match[2], node, path)
    if not isinstance(node, list):
        return None
    if path.rpartition(".")[2] in LISTS and not any(isinstance(item, list) for item in node):
        return None
    if not node:
        raise SpecError(f"{path}: an empty list leaves no runs; give at least one value")
    return node


def _range(kind: str, inside: str, text: str, path: str) -> list[float]:
    if kind == "range":
        return _whole_numbers(inside, text, path)
    try:
        low, high, n = inside.split(",")
        low, high, n = float(low), float(high), int(n)
    except ValueError:
        raise SpecError(f"{path}: cannot read {text!r}; write {kind}(low, high, how_many)") from None
    if n < 1 or low > high or not (math.isfinite(low) and math.isfinite(high)):
        raise SpecError(f"{path}: {text!r} needs low <= high and at least one point")
    if n > LONGEST:
        raise SpecError(f"{path}: {text!r} has {n:,} values; a range has at most {LONGEST:,}")
    if kind == "logspace" and low <= 0:
        raise SpecError(f"{path}: {text!r} needs low > 0")
    if n > 1 and low == high:
        raise SpecError(f"{path}: {text!r} gives one value {n} times; write {low:g}")
    return axis(kind, low, high, n)


def _whole_numbers(inside: str, text: str, path: str) -> list[float]:
    """What Python's `range` gives: `range(8)`, `range(1, 9)`, `range(0, 80, 10)`."""
    try:
        found = range(*(int(part) for part in inside.split(",")))
    except (ValueError, TypeError):
        raise SpecError(f"{path}: cannot read {text!r}; write range(how_many) or range(first, end)") from None
    if not 0 < len(found) <= LONGEST:
        raise SpecError(f"{path}: {text!r} has {len(found):,} values; a range has 1 to {LONGEST:,}")
    return list(found)


def axis(kind: str, low: float, high: float, n: int) -> list[float]:
    """Evenly spaced values, both ends included; `logspace`: evenly on a logarithmic axis."""
    points = np.geomspace(low, high, n) if kind == "logspace" else np.linspace(low, high, n)
    return [float(f"{x:.12g}") for x in points]


def zipped(groups: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """For each choice of every group of fields that vary together, the values to set, by dotted path."""
    columns = []
    for group in groups:
        if not group:
            raise SpecError("zip: an empty group leaves no runs; give at least one path and its values")
        lists = {path: _choices(value, path) or [value] for path, value in group.items()}
        if len({len(values) for values in lists.values()}) != 1:
            sizes = ", ".join(f"{path} has {len(values)}" for path, values in lists.items())
            raise SpecError(f"zip: lists that vary together need one length: {sizes}")
        columns.append([dict(zip(lists, choice, strict=True)) for choice in zip(*lists.values(), strict=True)])
    if (size := math.prod(map(len, columns))) > MANY:
        raise SpecError(f"zip: the groups have {size:,} combinations; there may be {MANY:,}")
    for choice in itertools.product(*columns):
        yield {path: value for part in choice for path, value in part.items()}


def put(node: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of a nested mapping with one dotted path set."""
    head, _, rest = path.partition(".")
    inner = node.get(head, {})
    if rest and isinstance(inner, str):  # `mixer: attention` is short for `mixer: {kind: attention}`
        inner = {"kind": inner}
    if rest and not isinstance(inner, Mapping):
        raise SpecError(f"{path} cannot be set, as {head} is {inner!r}")
    return {**node, head: put(inner, rest, value) if rest else value}


def matches(spec: Any, conditions: Mapping[str, Any]) -> bool:
    """Whether a run (as plain data) has all the values that an exclusion names; a list stands for any of its items."""
    return all(_equals(_at(spec, path), wanted) for path, wanted in conditions.items())


def _at(node: Any, path: str) -> Any:
    for part in path.split("."):
        if not isinstance(node, Mapping) or part not in node:
            raise SpecError(f"exclude: there is no field {path!r} in a run")
        node = node[part]
    return node


def _equals(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, list):
        return any(_equals(value, item) for item in wanted)
    if isinstance(value, Mapping) and isinstance(wanted, str):
        return value.get("kind") == wanted
    if isinstance(value, float) and isinstance(wanted, int | float):
        return math.isclose(value, wanted, rel_tol=1e-9)
    return value == wanted
