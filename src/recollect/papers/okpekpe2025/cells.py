"""The configurations that claims are tested in, and whether the paper's own setting is among the runs."""

from collections.abc import Callable
from itertools import product

import numpy as np
import pandas as pd

from recollect.analysis.groups import groups
from recollect.analysis.window import ZOOLOGY_RATES
from recollect.papers.estimates import Estimate, NotEnough
from recollect.papers.judge import Evidence
from recollect.papers.okpekpe2025.settings import SETTINGS

EPOCHS, WORDS = 50, 8192
SETTING = ("task.length", "task.pairs", "task.filler", "task.variant", "model.width", "model.layers", "train.epochs")
"""What two models must have in common to be compared, where the runs have it."""


def cells(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The runs of each configuration of a model, by a label such as `(64, 4) width 32`; lengths and widths ascend."""
    ordered = runs.sort_values(by=[name for name in ("task.length", "model.width") if name in runs], kind="stable")
    fields = [name for name in runs if name.startswith(("task.", "model.", "train.")) and len(runs[name].unique()) > 1]
    shown = ("task.length", "task.pairs", "model.width")
    others = [name for name in fields if name not in (*shown, "train.lr", "train.seed")]
    found = {}
    for at, same in groups(ordered, [name for name in shown if name in runs]):
        label = f"({', '.join(str(at[name]) for name in shown[:2] if name in at)}) width {at['model.width']}"
        differ = [name for name in others if len(same[name].unique()) > 1]
        for values, rows in groups(same, differ) if differ else [({}, same)]:
            found[label + "".join(f", {name.rpartition('.')[2]} {value}" for name, value in values.items())] = rows
    return found


def best_in_cells(evidence: Evidence, runs: pd.DataFrame, name: str) -> list[Estimate]:
    """The accuracy of each configuration of a model at its best rate."""
    return [evidence.best(rows, f"{name} {at}") for at, rows in cells(runs).items()]


def common(one: pd.DataFrame, other: pd.DataFrame) -> dict[str, tuple[pd.DataFrame, pd.DataFrame]]:
    """The configurations of two models that have their setting in common; NotEnough where there is none."""

    def setting(rows: pd.DataFrame) -> list[object]:
        return [rows[name].iloc[0] for name in SETTING if name in one and name in other]

    found = {
        at if at == opposite else f"{at} | {opposite}": (ours, theirs)
        for (at, ours), (opposite, theirs) in product(cells(one).items(), cells(other).items())
        if setting(ours) == setting(theirs)
    }
    if not found:
        raise NotEnough("no setting was tried with both models")
    return found


def with_zoologys_rates(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The configurations in which all four of Zoology's rates were tried; NotEnough where there is none."""
    found = {
        at: rows
        for at, rows in cells(runs).items()
        if all(np.isclose(rows["train.lr"].to_numpy(float), rate, rtol=0.01).any() for rate in ZOOLOGY_RATES)
    }
    if not found:
        raise NotEnough("Zoology's four rates were tried in no setting")
    return found


def widest(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs of the largest width."""
    return runs.loc[runs["model.width"] == runs["model.width"].max()]


def pairs(runs: pd.DataFrame) -> int:
    """How many pairs the task of these runs has."""
    return int(runs["task.pairs"].iloc[0])


def printed(*settings: tuple[int, int], wider_than_long: str = "", in_each: bool = False) -> Callable[[Evidence], bool]:
    """Whether some runs have the paper's protocol (50 epochs, 8,192 words) in one of these settings, or of all that it names.

    `wider_than_long`: a model that must have such runs with a width above the length. `in_each`: there must be such runs in every
    one of the settings, because the claim is about some setting.
    """

    def test(evidence: Evidence) -> bool:
        runs, known = evidence.runs, set(settings or SETTINGS["paper"])
        if wider_than_long:
            runs = runs.loc[(runs["model"] == wider_than_long) & (runs["model.width"] > runs["task.length"])]
        fields = ("train.epochs", "task.vocab", "task.length", "task.pairs")
        found = zip(*(runs[name] for name in fields), strict=True) if set(fields) <= set(runs) else ()
        tried = {tuple(setting) for epochs, words, *setting in found if epochs >= EPOCHS and words == WORDS}
        return known <= tried if in_each else bool(known & tried)

    return test


PRINTED = printed()
"""Whether the paper's protocol was run in any setting that the paper names: what decides most claims."""
