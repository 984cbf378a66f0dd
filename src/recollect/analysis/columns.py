"""Columns of results by the names that people use, and rows chosen by conditions on them."""

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pandas as pd

from recollect.spec import SpecError, nearest

_PARTS = ("", "model.", "task.", "train.", "final.", "model.mixer.")
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le, ">=": operator.ge, "!=": operator.ne, "==": operator.eq, "=": operator.eq, "<": operator.lt,
    ">": operator.gt,
}  # fmt: skip
_CONDITION = re.compile(r"\s*([\w.]+)\s*(<=|>=|!=|==|=|<|>|~)\s*(.*?)\s*")


def column(frame: pd.DataFrame, name: str) -> str:
    """The column that a name means: `width` means `model.width` where there is no column `width`."""
    if name == "mixer" and "model.mixer" in frame:
        return "model.mixer"
    for part in _PARTS:
        if part + name in frame:
            return part + name
    choices = {next(c.removeprefix(part) for part in reversed(_PARTS) if c.startswith(part)) for c in frame.columns}
    raise SpecError(f"no column {name!r}: {nearest(name, choices)}")


def where(frame: pd.DataFrame, conditions: Sequence[str]) -> pd.DataFrame:
    """The rows for which all conditions hold: `accuracy > 0.9`, `mixer = mamba2`, `configuration ~ conv` (contains)."""
    for condition in conditions:
        match = _CONDITION.fullmatch(condition)
        if match is None or not match[3]:
            signs = ", ".join((*_COMPARE, "~"))
            raise SpecError(f"condition {condition!r}: write a column, one of {signs}, and a value: accuracy > 0.9")
        values, sign, wanted = frame[column(frame, match[1])], match[2], match[3]
        if sign == "~":
            frame = frame.loc[[wanted in str(value) for value in values]]
        elif pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
            try:
                frame = frame.loc[_COMPARE[sign](values, float(wanted))]
            except ValueError:
                raise SpecError(f"condition {condition!r}: {match[1]} is a number, and {wanted!r} is not") from None
        elif sign in ("=", "==", "!="):
            same = [
                wanted in (str(value), str(value).rpartition(":")[2]) for value in values
            ]  # mine.py:Mine is Mine too
            frame = frame.loc[[found == (sign != "!=") for found in same]]
        else:
            raise SpecError(f"condition {condition!r}: {match[1]} is not a number: use =, != or ~ (contains)")
    return frame


def ordered(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """The rows by a column, ascending; `-name`: descending. What is missing comes last."""
    return frame.sort_values(
        column(frame, name.removeprefix("-")), ascending=not name.startswith("-"), kind="stable", na_position="last"
    )


def is_share(measure: str) -> bool:
    """Whether a measure lies between 0 and 1."""
    return measure.endswith("accuracy") or measure in ("final.answers", "final.rows", "final.valid", "answers", "rows")


def logarithmic(values: Iterable[Any]) -> bool:
    """Whether numbers are best shown on a logarithmic axis: all are positive, and the largest is four times the least."""
    known = [value for value in values if value == value and value is not None]
    return bool(known) and min(known) > 0 and max(known) >= 4 * min(known)
