"""Which runs a line of text keeps: words, `field=value`, `field>number`; all of them must fit."""

import re

import numpy as np
import pandas as pd

from recollect.views.fields import plain
from recollect.views.frame import Frame

_WORD = re.compile(r"([\w.]+?)(>=|<=|!=|>|<|=)(.+)")
_TEXT = ("study", "configuration", "status", "id")


def matching(runs: Frame, text: str) -> Frame:
    """Whether each run fits the text. A word that names no field is looked for in study, configuration, status and id."""
    fits = pd.Series(True, runs.index)
    for word in text.lower().split():
        found = _WORD.fullmatch(word)
        field = _field(runs, found[1]) if found else None
        if found is None or field is None:
            columns = [runs[name].astype(str).str.lower() for name in _TEXT if name in runs]
            fits &= np.logical_or.reduce([column.str.contains(word, regex=False) for column in columns])
        else:
            fits &= _compared(runs[field], found[2], found[3])
    return fits


def _field(runs: Frame, name: str) -> str | None:
    """The column of a name: by its whole name, its last part, or as it is called."""
    return next((c for c in runs if name in (c, c.split(".")[-1], plain(c).replace(" ", "_"))), None)


def _compared(values: Frame, sign: str, wanted: str) -> Frame:
    number: Frame = pd.to_numeric(wanted, errors="coerce")
    if sign in ("=", "!="):
        numeric = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
        same = values == number if numeric else values.astype(str).str.lower().str.contains(wanted, regex=False)
        return same if sign == "=" else ~same
    known = pd.to_numeric(values, errors="coerce")
    return {">": known > number, "<": known < number, ">=": known >= number, "<=": known <= number}[sign]
