"""Figures 9 and 20: position embeddings in the plane of their first two components; spirals in SSMs, none in Transformers."""

from collections.abc import Callable, Sequence
from itertools import product

import pandas as pd

from recollect.analysis.embeddings import pca, spiral
from recollect.figures.scatter import scatter_figure
from recollect.papers.estimates import Estimate, share_of
from recollect.papers.item import Drawing, Item
from recollect.papers.judge import Claim, Evidence
from recollect.papers.questions import every, exceeds, few, most
from recollect.papers.retrievit2026.embeddings import (
    DIFFERS,
    FIG9_MODELS,
    SHARES,
    learnt_embeddings,
    over_seeds,
    shown_embeddings,
    shown_seeds,
    studies,
)
from recollect.papers.retrievit2026.settings import HALF, M2_BLOCKS, TITLES, TRANSFORMERS

FIG20_MODELS = (*M2_BLOCKS, "2S-M2")
SPIRAL = "a spiral (net angle in the plane of two components over half of the angle travelled and above chance, 3/4 of a turn)"


def _spirals(evidence: Evidence, name: str, share: float = 1.0) -> Estimate:
    found = learnt_embeddings(evidence, name, share)
    return share_of((spiral(x).found for x in found), f"{name}: share of runs with a spiral at {share:.0%}")


def _monotone(evidence: Evidence, name: str, share: float) -> Estimate:
    return over_seeds(evidence, name, lambda x: spiral(x).monotone, f"{name}: monotone angle at {share:.0%}", share)


def _no_spiral(name: str) -> Claim:
    return Claim(
        f"F6-{name}-no-spiral",
        f"Fewer than half of the runs of {name} that have learnt the task (accuracy at least {HALF}) end with a spiral in the "
        "embeddings shown",
        lambda evidence: few(_spirals(evidence, name)),
    )


def draw_planes(title: str, names: Sequence[str]) -> Callable[[Evidence, str], Drawing]:
    """The first two principal components, a row per share of training, a column per model."""

    def drawing(evidence: Evidence, caption: str) -> Drawing:
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

    return drawing


FIG9 = Item(
    "fig9",
    "Position embeddings over training",
    "SSMs form a spiral, Transformers none",
    draw_planes("Position embeddings, first two components", FIG9_MODELS),
    studies("embeddings", FIG9_MODELS),
    (
        Claim(
            "F6-spiral",
            f"Most runs of Mamba2 end, in the embeddings shown, with {SPIRAL}",
            lambda evidence: most(_spirals(evidence, "M2")),
        ),
        *map(_no_spiral, TRANSFORMERS),
    ),
    DIFFERS,
    ("snapshots",),
)
FIG20 = Item(
    "fig20",
    "Position embeddings of hybrids over training",
    "hybrids begin with a spiral and leave it",
    draw_planes("Position embeddings of hybrids", FIG20_MODELS),
    studies("embeddings-hybrids", FIG20_MODELS),
    (
        Claim(
            "F6-early-spiral",
            f"After a quarter of their training most runs of every hybrid that learn the task have {SPIRAL}",
            lambda evidence: every(FIG20_MODELS, lambda name: most(_spirals(evidence, name, 0.25))),
        ),
        Claim(
            "F6-leave-spiral",
            "In every hybrid the angle is less monotone at the end than after a quarter of the training",
            lambda e: every(FIG20_MODELS, lambda name: exceeds(_monotone(e, name, 0.25), _monotone(e, name, 1.0))),
        ),
    ),
    DIFFERS,
    ("snapshots",),
)
