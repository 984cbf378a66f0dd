"""The configurations that claims are tested in, and whether the paper's own setting is among the runs."""

from collections.abc import Callable

import pandas as pd

from recollect.analysis.groups import groups
from recollect.papers.estimates import NotEnough
from recollect.papers.judge import Evidence
from recollect.papers.okpekpe2025.settings import SETTINGS

EPOCHS, WORDS = 50, 8192
FIELDS = ("task.length", "task.pairs", "task.filler", "task.variant", "model.width", "model.layers")


def cells(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The runs of each setting, width and depth, by a label such as `(64, 4) width 32`; widths ascend."""
    fields = [name for name in FIELDS if name in runs]
    ordered = runs.sort_values(by=[name for name in ("task.length", "model.width", "model.layers") if name in runs])
    told = [name for name in fields if name in FIELDS[2:] and name != "model.width" and len(runs[name].unique()) > 1]
    found = {}
    for values, rows in groups(ordered, fields):
        size = ", ".join(str(values[name]) for name in FIELDS[:2] if name in values)
        extra = "".join(f", {name.rpartition('.')[2]} {values[name]}" for name in told)
        found[f"({size}) width {values['model.width']}{extra}"] = rows
    return found


def common(one: pd.DataFrame, other: pd.DataFrame) -> dict[str, tuple[pd.DataFrame, pd.DataFrame]]:
    """The cells that both have; NotEnough where there is none."""
    # both are labelled with the same fields, so that equal labels mean equal settings
    ours, theirs = cells(pd.concat([one, other])), set(other.index)
    found = {}
    for label, rows in ours.items():
        inside = [bool(place in theirs) for place in rows.index]
        parts = rows.loc[[not yes for yes in inside]], rows.loc[inside]
        if len(parts[0]) and len(parts[1]):
            found[label] = parts
    if not found:
        raise NotEnough("no setting was tried with both models")
    return found


def pairs(runs: pd.DataFrame) -> int:
    """How many pairs the task of these runs has."""
    return int(runs["task.pairs"].iloc[0])


def printed(*settings: tuple[int, int], wider_than_long: str = "") -> Callable[[Evidence], bool]:
    """Whether some runs have the paper's protocol (50 epochs, 8,192 words) in one of these settings, or of all that it names.

    `wider_than_long`: a model of which there must be such runs with a width above the length.
    """

    def test(evidence: Evidence) -> bool:
        runs, known = evidence.runs, [list(setting) for setting in settings or SETTINGS["paper"]]
        if wider_than_long:
            runs = runs.loc[(runs["model"] == wider_than_long) & (runs["model.width"] > runs["task.length"])]
        fields = ("train.epochs", "task.vocab", "task.length", "task.pairs")
        found = zip(*(runs[name] for name in fields), strict=True) if set(fields) <= set(runs) else ()
        return any(epochs >= EPOCHS and words == WORDS and setting in known for epochs, words, *setting in found)

    return test
