"""The columns of runs as axes, lines and measures: which there are, and what they are called."""

import html
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from recollect.views.base import TOP, Choice
from recollect.views.frame import Frame

MEASURES = ("accuracy", "best_accuracy", "best_step", "step", "seconds")
SIZES = ("state_size", "parameters")
_PARTS = ("task.", "model.", "train.")
_NAMES = {
    "train.lr": "learning rate", "task.kind": "task", "final.loss": "test loss", "final.valid": "validation accuracy",
    "model": "model", "test_loss": "validation loss", "step": "step",
}  # fmt: skip


def plain(field: str) -> str:
    """A column as people call it: `model.width` is `width`."""
    return _NAMES.get(field) or field.removeprefix("final.").split(".", field.count(".") > 0)[-1].replace("_", " ")


def text(value: object) -> str:
    """A value as Plotly has to be given it, so that it shows markup as text."""
    return html.escape(f"{value:.4g}" if isinstance(value, float) else str(value), quote=False)


def varying(runs: Frame) -> list[str]:
    """The fields of the specification in which runs differ, but for the seed."""
    fields = [name for name in runs.columns if name.startswith(_PARTS) and name != "train.seed"]
    return [name for name in fields if runs[name].nunique(dropna=False) > 1]


def measures(runs: Frame) -> list[str]:
    """The numbers that came out of runs."""
    return [name for name in (*MEASURES, *(c for c in runs if c.startswith("final."))) if number(runs, name)]


def axes(runs: Frame) -> list[str]:
    """The sizes and fields that are numbers and differ among runs."""
    found = [*SIZES, *varying(runs)]
    return [name for name in found if number(runs, name) and runs[name].nunique() > 1]


def groupings(runs: Frame) -> list[str]:
    """What lines can stand for."""
    several = ["study"] if runs["study"].nunique() > 1 else []
    return list(dict.fromkeys(["configuration", "model", *several, *varying(runs)]))


def number(runs: Frame, name: str) -> bool:
    """Whether a column is there and holds numbers."""
    return name in runs and is_numeric_dtype(runs[name]) and not is_bool_dtype(runs[name]) and runs[name].notna().any()


def lines_of(runs: Frame, by: str) -> Frame:
    """The line that each run belongs to. With several studies the name includes the study."""
    if by == "configuration" and runs["study"].nunique() > 1:
        return runs["configuration"] + " · " + runs["study"]
    codes, values = pd.factorize(runs[by], use_na_sentinel=False)
    names = np.array([value_text(value) for value in values], object)
    return pd.Series(names[codes], runs.index, dtype=object)


def value_text(value: Any) -> str:
    """A value of a field as a line is called by it."""
    if value is None or value != value:
        return "none"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def choose(name: str, label: str, fields: Sequence[str], default: str = "") -> Choice:
    """A choice among columns."""
    return Choice(name, label, {field: plain(field) for field in fields}, default or fields[0])


def scales() -> list[Choice]:
    """The choice of both scales; `auto`: by the numbers."""
    options = {"auto": "auto", "linear": "linear", "log": "log"}
    return [Choice("xscale", "x scale", options, "auto"), Choice("yscale", "y scale", options, "auto")]


def top() -> Choice:
    """The choice of how many lines are shown, those with the best values."""
    return Choice("top", "show", {**{str(k): f"best {k}" for k in (3, 5, TOP, 25)}, "all": "all"}, str(TOP))
