"""The embeddings of position tokens, and which of them are used: shared by Figures 9 to 11 and 20 to 22 and by `tying`.

The task is position retrieval. Scales other than `paper` tie no head, and show the head's embeddings (see `tying`).
Figures 9 and 20: the plane of their first two components; spirals in SSMs, none in Transformers.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from recollect.analysis.embeddings import pca, spiral
from recollect.figures.grids import scatter_figure
from recollect.papers.estimates import Estimate, NotEnough, share_of
from recollect.papers.item import Drawing, Item
from recollect.papers.judge import Claim, Evidence, claims
from recollect.papers.questions import Finding, exceeds, few, most
from recollect.papers.retrievit2026.settings import M2_BLOCKS, TITLES, TRANSFORMERS, differs, studied
from recollect.papers.retrievit2026.view import HALF, best_learnt, each, learnt, mean_over_seeds, of, rows_of, view

SHARES = (0.25, 0.5, 0.75, 1.0)
"""Shares of training at which embeddings are shown."""
FIG9_MODELS = ("RoPE", "NoPE", "M2", "HI-M2-1")
"""Also those of Figure 10."""
FIG20_MODELS = (*M2_BLOCKS, "2S-M2")
SPIRAL = "a spiral (net angle in the plane of two components over half of the angle travelled and above chance, 3/4 of a turn)"
ALONE = ("M", "M2")
"""SSMs without attention."""
HEAD = "No head is tied here, so that the head's embeddings are shown; the paper shows input embeddings."
DIFFERS = differs("position", tiny=HEAD, small=HEAD)


def embeddings(
    evidence: Evidence, runs: pd.DataFrame, name: str, share: float = 1.0, table: str = ""
) -> list[np.ndarray]:
    """The embeddings (positions, width) of runs of a model at a share of training; `table`: input or output, or what is shown."""
    if runs.empty or evidence.snapshots.empty:
        raise NotEnough(f"there are no embeddings of {name}")
    table = table or ("input" if evidence.scale == "paper" else "output")
    rows = rows_of(evidence.snapshots.loc[evidence.snapshots["share"] == share], runs["id"])
    return [row["input"] if row[table] is None else row[table] for row in rows.to_dict("records")]  # None: tied


def learnt_embeddings(
    evidence: Evidence, name: str, share: float = 1.0, table: str = "", **values: bool
) -> list[np.ndarray]:
    """Those of the runs that have learnt the task: others are no evidence.

    An SSM without attention is exempt: in the paper it does not learn the task, and has structure nevertheless.
    """
    runs = of(evidence, name, **values)
    return embeddings(evidence, runs if name in ALONE else learnt(runs, name, HALF), name, share, table)


def shown(evidence: Evidence, name: str) -> pd.DataFrame:
    """The run that is drawn, as a frame of at most one row: of those that have learnt, the most accurate."""
    runs = view(evidence)
    return best_learnt(runs.loc[runs["name"] == name]).head(1)


def shown_embeddings(evidence: Evidence, name: str, share: float = 1.0) -> np.ndarray | None:
    """The embeddings that are drawn."""
    try:
        found = embeddings(evidence, shown(evidence, name), name, share)
    except NotEnough:
        return None
    return found[0] if found else None


def shown_seeds(evidence: Evidence, names: Sequence[str]) -> str:
    """Which seeds are drawn, and how accurate they are."""
    seeds = [
        f"{TITLES[name]} {row['train.seed']} ({row['accuracy']:.2f})"
        for name in names
        for row in shown(evidence, name).to_dict("records")
    ]
    return f"Seeds shown (accuracy): {', '.join(seeds)}." if seeds else ""


def over_seeds(
    evidence: Evidence, name: str, what: Callable[[np.ndarray], float], label: str, **options: Any
) -> Estimate:
    """A measure of the embeddings of the runs that have learnt, with a variance that the item's models share; `options` are
    those of `learnt_embeddings`."""
    return mean_over_seeds(
        evidence, name, lambda of: [what(x) for x in learnt_embeddings(evidence, of, **options)], label
    )


def _spirals(evidence: Evidence, name: str, share: float = 1.0) -> Estimate:
    found = learnt_embeddings(evidence, name, share)
    return share_of((spiral(x).found for x in found), f"{name}: share of runs with a spiral at {share:.0%}")


def _monotone(evidence: Evidence, name: str, share: float) -> Estimate:
    return over_seeds(
        evidence, name, lambda x: spiral(x).monotone, f"{name}: monotone angle at {share:.0%}", share=share
    )


@claims("F6-{name}-no-spiral", TRANSFORMERS)
def _no_spiral(name: str, evidence: Evidence) -> Finding:
    """Fewer than half of the runs of {name} that have learnt the task (accuracy at least {HALF}) end with a spiral in the
    embeddings shown"""
    return few(_spirals(evidence, name))


def draw_planes(title: str, names: Sequence[str], evidence: Evidence, caption: str) -> Drawing:
    """The first two principal components, a row per share of training, a column per model."""
    cells, notes, rows = {}, {}, []
    for share, name in product(SHARES, names):
        if (x := shown_embeddings(evidence, name, share)) is not None:
            points, explained = pca(x, 2)
            at = f"{share:.0%} of training", TITLES[name]
            cells[at], notes[at] = points, f"{explained[0]:.0%} + {explained[1]:.0%} of variance"
            rows += [(TITLES[name], share, i + 1, *point, explained.sum()) for i, point in enumerate(points)]
    figure = scatter_figure(
        cells, [f"{share:.0%} of training" for share in SHARES], [TITLES[name] for name in names], title=title,
        caption=f"{caption} {shown_seeds(evidence, names)}", order="position", notes=notes,
    )  # fmt: skip
    return figure, pd.DataFrame(rows, columns=["model", "share", "position", "first", "second", "explained"])


def _item(name: str, title: str, shows: str, drawn: str, part: str, models: Sequence[str], *claims: Claim) -> Item:
    """An item that shows the plane of the first two components."""
    draw, trained = partial(draw_planes, drawn, models), studied(part, "position", models)
    return Item(name, title, shows, draw, trained, claims, DIFFERS, ("snapshots",))


FIG9 = _item(
    "fig9", "Position embeddings over training", "SSMs form a spiral, Transformers none",
    "Position embeddings, first two components", "embeddings", FIG9_MODELS,
    Claim("F6-spiral", f"Most runs of Mamba2 end, in the embeddings shown, with {SPIRAL}", lambda e: most(_spirals(e, "M2"))),
    *_no_spiral,
)  # fmt: skip
FIG20 = _item(
    "fig20", "Position embeddings of hybrids over training", "hybrids begin with a spiral and leave it",
    "Position embeddings of hybrids", "embeddings-hybrids", FIG20_MODELS,
    Claim("F6-early-spiral", f"After a quarter of their training most runs of every hybrid that learn the task have {SPIRAL}",
          each(FIG20_MODELS, lambda e, name: most(_spirals(e, name, 0.25)))),
    Claim("F6-leave-spiral", "In every hybrid the angle is less monotone at the end than after a quarter of the training",
          each(FIG20_MODELS, lambda e, name: exceeds(_monotone(e, name, 0.25), _monotone(e, name, 1.0)))),
)  # fmt: skip
