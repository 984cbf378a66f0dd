"""The embeddings of position tokens, and which of them are used: shared by Figures 9 to 11 and 20 to 22 and by `tying`.

The task is position retrieval. Scales other than `paper` tie no head, and show the head's embeddings (see `tying`).
"""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from recollect.papers.estimates import Estimate, NotEnough, mean_of
from recollect.papers.judge import Evidence, Scale
from recollect.papers.retrievit2026 import settings
from recollect.papers.retrievit2026.captions import differs
from recollect.papers.retrievit2026.settings import HALF, TITLES, best_learnt, learnt, of, pooled, view
from recollect.study.spec import Study

SHARES = (0.25, 0.5, 0.75, 1.0)
"""Shares of training at which embeddings are shown."""
FIG9_MODELS = ("RoPE", "NoPE", "M2", "HI-M2-1")
"""Also those of Figure 10."""
ALONE = ("M", "M2")
"""SSMs without attention."""
HEAD = "No head is tied here, so that the head's embeddings are shown; the paper shows input embeddings."
DIFFERS = differs("position", tiny=HEAD, small=HEAD)


def studies(part: str, names: Sequence[str]) -> Callable[[Scale], list[Study]]:
    """These models in position retrieval."""
    return lambda scale: settings.studies(part, scale, "position", names)


def embeddings(
    evidence: Evidence, name: str, share: float = 1.0, table: str = "", tie: bool | None = None
) -> list[np.ndarray]:
    """The embeddings (positions, width) of a model's runs at a share of training; `table`: input or output, or what is shown."""
    runs = view(evidence)
    inside = runs.loc[(runs["name"] == name) & ((runs["model.tie"] == tie) if tie is not None else True), "id"]
    return _tables(evidence, name, list(inside), share, table)


def learnt_embeddings(
    evidence: Evidence, name: str, share: float = 1.0, table: str = "", **values: bool
) -> list[np.ndarray]:
    """`embeddings` of the runs that have learnt the task: others are no evidence.

    An SSM without attention is exempt: in the paper it does not learn the task, and has structure nevertheless.
    """
    runs = of(evidence, name, **values)
    kept = runs if name in ALONE else learnt(runs, name, HALF)
    return _tables(evidence, name, list(kept["id"]), share, table)


def _tables(evidence: Evidence, name: str, ids: list[str], share: float, table: str) -> list[np.ndarray]:
    if not ids or evidence.snapshots.empty:
        raise NotEnough(f"there are no embeddings of {name}")
    table = table or ("input" if evidence.scale == "paper" else "output")
    rows = evidence.snapshots.loc[evidence.snapshots["run"].isin(ids) & (evidence.snapshots["share"] == share)]
    return [row["input"] if row[table] is None else row[table] for row in rows.to_dict("records")]  # None: tied


def shown(evidence: Evidence, name: str) -> pd.DataFrame:
    """The run that is drawn, as a frame of at most one row: of those that have learnt, the most accurate."""
    runs = view(evidence)
    return best_learnt(runs.loc[runs["name"] == name]).head(1)


def shown_embeddings(evidence: Evidence, name: str, share: float = 1.0) -> np.ndarray | None:
    """The embeddings that are drawn."""
    try:
        found = _tables(evidence, name, list(shown(evidence, name)["id"]), share, "")
    except NotEnough:
        return None
    return found[0] if found else None


def shown_seeds(evidence: Evidence, names: Sequence[str]) -> str:
    """Which seeds are drawn, and how accurate they are."""
    shown_seeds = [
        f"{TITLES[name]} {row['train.seed']} ({row['accuracy']:.2f})"
        for name in names
        for row in shown(evidence, name).to_dict("records")
    ]
    return f"Seeds shown (accuracy): {', '.join(shown_seeds)}." if shown_seeds else ""


def over_seeds(
    evidence: Evidence,
    name: str,
    what: Callable[[np.ndarray], float],
    label: str,
    share: float = 1.0,
    table: str = "",
    **tie: bool,
) -> Estimate:
    """A measure of the embeddings of the runs that have learnt, with a variance that the item's models share."""

    def values(of: str) -> list[float]:
        return [what(x) for x in learnt_embeddings(evidence, of, share, table, **tie)]

    return mean_of(values(name), label, pooled(evidence, values))
