"""Figures 10, 11, 21 and 22: are the embeddings of neighbouring positions alike? In SSMs and hybrids, not in Transformers."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import product

import numpy as np
import pandas as pd

from recollect.analysis.embeddings import chance_distance, cosine, neighbour_distance, pca
from recollect.figures.grids import heatmaps_figure, long_table
from recollect.figures.panels import mean_and_range
from recollect.papers.estimates import Estimate, NotEnough
from recollect.papers.item import Drawing, Item, lines
from recollect.papers.judge import Claim, Evidence, Scale, Test, claims
from recollect.papers.questions import Finding, all_of, at_least, at_most, every
from recollect.papers.retrievit2026.embeddings import (
    DIFFERS,
    FIG9_MODELS,
    HEAD,
    SHARES,
    embeddings,
    over_seeds,
    shown_embeddings,
    shown_seeds,
)
from recollect.papers.retrievit2026.settings import M2_BLOCKS, SETTINGS, TITLES, TRANSFORMERS, differs, studied
from recollect.papers.retrievit2026.view import each, view

FIG22_MODELS = ("RoPE", "NoPE", "M2", "2S-M2")
NEIGHBOURS = (1, 2, 5, 10, 20, 50)
NEAR, FAR, LOCAL = 0.5, 0.75, 0.3
"""The mean distance of nearest neighbours over that of chance: the most where embeddings are local, the least where they are
not; and the least by which the cosine similarity of adjacent positions exceeds that of others where they are local."""
ALIKE, LOW, SOONER = 0.9, 0.9, 0.1
"""The least cosine similarity of near-identical embeddings; the least share of variance in a low-dimensional subspace; the least
by which locality at the ends of the sequence exceeds that in its middle."""
COMPONENTS = (32, 64, 128)
"""Principal components for 200 positions; fewer positions have proportionally fewer."""


def components(scale: Scale) -> tuple[int, ...]:
    """How many principal components correspond to the paper's 32, 64 and 128."""
    return tuple(max(2, round(n * SETTINGS[scale].position / 200)) for n in COMPONENTS)


def locality(x: np.ndarray, kept: int | None) -> float:
    """By how much the cosine similarity of adjacent positions exceeds that of the others."""
    similar, apart = cosine(x, kept), np.abs(np.subtract.outer(np.arange(len(x)), np.arange(len(x))))
    return float(similar[apart == 1].mean() - similar[apart > 1].mean())


def nearness(x: np.ndarray) -> float:
    """The mean distance to the two nearest neighbours, over that of chance."""
    return float(neighbour_distance(x, (2,))[0] / chance_distance(len(x)))


def _locality(evidence: Evidence, name: str, kept: int | None) -> Estimate:
    shown = "all" if kept is None else str(kept)
    return over_seeds(evidence, name, lambda x: locality(x, kept), f"{name}: locality in {shown} dimensions")


def _local(names: Sequence[str], every_dimension: bool, evidence: Evidence) -> Finding:
    """Whether adjacent positions are alike: in the fewest dimensions, or in every number of them."""
    dims = (*components(evidence.scale), None) if every_dimension else components(evidence.scale)[:1]
    return every(product(names, dims), lambda name, kept: at_least(_locality(evidence, name, kept), LOCAL))


@claims("F6-{name}-not-local", TRANSFORMERS)  # one per model, because either may not have learnt
def _not_local(name: str, evidence: Evidence) -> Finding:
    """In {name}, in the fewest components shown, adjacent positions are more alike than others by at most {LOCAL} in cosine
    similarity of the embeddings shown"""
    return at_most(_locality(evidence, name, components(evidence.scale)[0]), LOCAL)


def _at_least(
    names: Sequence[str], what: Callable[[np.ndarray, int], float], label: str, bound: float, **options: float
) -> Test:
    """Whether a measure of the embeddings, taken with the fewest components shown, is at least this in each of these models."""

    def test(evidence: Evidence, name: str) -> Finding:
        kept = components(evidence.scale)[0]
        found = over_seeds(evidence, name, lambda x: what(x, kept), f"{name}: {label.format(kept)}", **options)
        return at_least(found, bound)

    return each(names, test)


def _lead_of_ends(x: np.ndarray, kept: int) -> float:
    near, edge = np.diag(cosine(x, kept), 1), max(1, len(x) // 10)
    middle = near[len(near) // 4 : len(near) - len(near) // 4]
    return float(min(near[:edge].mean(), near[-edge:].mean()) - middle.mean())


def near(evidence: Evidence, name: str, table: str = "", **tie: bool) -> Estimate:
    """`nearness` of a model's embeddings over the seeds that have learnt; `table` and `tie` as `embeddings` takes them."""
    words = "".join(f", {'tied' if value else 'untied'}" for value in tie.values()) + (f", {table}" if table else "")
    return over_seeds(evidence, name, nearness, f"{name}{words}: neighbours' distance / chance", table=table, **tie)


def near_in(evidence: Evidence, local: Sequence[str], table: str = "", **tie: bool) -> Finding:
    """Whether neighbours are near in these models, and not in RoPE."""
    parts = (lambda name=name: at_most(near(evidence, name, table, **tie), NEAR) for name in local)
    return all_of(*parts, lambda: at_least(near(evidence, "RoPE", table, **tie), FAR))


def _similar(x: np.ndarray, kept: int | None) -> pd.DataFrame:
    places = range(1, len(x) + 1)
    return pd.DataFrame(cosine(x, kept), index=places, columns=places)


def draw_similarity(title: str, names: Sequence[str], over_time: bool, evidence: Evidence, caption: str) -> Drawing:
    """Cosine similarity of every two positions: a row per share of training, or a row per number of principal components."""
    dims = components(evidence.scale)
    rows = {f"{share:.0%}": (share, dims[0]) for share in SHARES} if over_time else {
        **{f"PCA {kept}": (1.0, kept) for kept in dims}, "no PCA": (1.0, None)}  # fmt: skip
    cells = {
        (row, TITLES[name]): _similar(x, kept)
        for (row, (share, kept)), name in product(rows.items(), names)
        if (x := shown_embeddings(evidence, name, share)) is not None
    }
    figure = heatmaps_figure(
        cells, list(rows), [TITLES[name] for name in names], title=title, xlabel="position",
        caption=f"{caption} {shown_seeds(evidence, names)}", ylabel="position", value="cosine similarity", limits=(-1.0, 1.0),
    )  # fmt: skip
    return figure, long_table(cells, ("position", "other"), "cosine")


def _distances(evidence: Evidence) -> pd.DataFrame:
    """Mean |i - j| over the K nearest neighbours, by model and K."""
    tried, rows, runs = tuple(k for k in NEIGHBOURS if k < SETTINGS[evidence.scale].position), [], view(evidence)
    for name in ("RoPE", "HI-M2-1"):
        with suppress(NotEnough):
            for x in embeddings(evidence, runs.loc[runs["name"] == name], name):
                found = zip(tried, neighbour_distance(x, tried), strict=True)
                rows += [{"model": TITLES[name], "K": k, "distance": distance} for k, distance in found]
    return mean_and_range(pd.DataFrame(rows, columns=["model", "K", "distance"]), ["model", "K"], "distance")


def _chance(evidence: Evidence) -> float:
    return chance_distance(SETTINGS[evidence.scale].position)


_ADJACENT = "adjacent positions are more alike than others"


def _item(
    name: str, title: str, shows: str, drawn: str, part: str, models: Sequence[str], over_time: bool, *claims: Claim
) -> Item:
    """An item that shows the cosine similarity of every two positions."""
    draw = partial(draw_similarity, drawn, models, over_time)
    return Item(name, title, shows, draw, studied(part, "position", models), claims, DIFFERS, ("snapshots",))


FIG10 = _item(
    "fig10", "Cosine similarity of position embeddings over training", "SSMs and hybrids are local, Transformers are not",
    "Cosine similarity after PCA", "embeddings", FIG9_MODELS, True,
    Claim("F6-local", f"In Mamba2 and interleaved 1:1, in the fewest components shown, {_ADJACENT} by at least {LOCAL} in "
          "cosine similarity of the embeddings shown", partial(_local, ("M2", "HI-M2-1"), False)),
    *_not_local,
    Claim("F6-ends-first", "After a quarter of training, in the fewest components shown, neighbours among the first and among "
          f"the last tenth of the positions are more alike than in the middle half by at least {SOONER} in Mamba2 and "
          "interleaved 1:1", _at_least(
              ("M2", "HI-M2-1"), _lead_of_ends,
              f"likeness of neighbours at the ends, over that in the middle, at {SHARES[0]:.0%}", SOONER, share=SHARES[0])),
)  # fmt: skip
FIG21 = _item(
    "fig21", "Cosine similarity of position embeddings, interleaved", "all ratios are local, whatever the dimensions",
    "Cosine similarity, interleaved N:1", "embeddings-ratios", M2_BLOCKS, False,
    Claim("F6-ratios-local", f"With and without PCA {_ADJACENT} by at least {LOCAL}, N = 1 to 4",
          partial(_local, M2_BLOCKS, True)),
)  # fmt: skip
FIG22 = _item(
    "fig22", "Cosine similarity of position embeddings, one of each family",
    "Mamba2 and two-stream are local, Transformers are not", "Cosine similarity", "embeddings-families", FIG22_MODELS, False,
    Claim("F6-families-local", f"In Mamba2 and two-stream Mamba2, with and without PCA, {_ADJACENT} by at least {LOCAL}",
          partial(_local, ("M2", "2S-M2"), True)),
    *_not_local,
    Claim("F6-near-identical", f"Without PCA the embeddings of RoPE and NoPE have a mean cosine similarity of at least {ALIKE}",
          _at_least(TRANSFORMERS, lambda x, _: float(cosine(x).mean()), "mean cosine similarity", ALIKE)),
    Claim("F6-low-dimensional", "In Mamba2 and two-stream Mamba2 the fewest components shown hold at least "
          f"{LOW} of the variance of the embeddings",
          _at_least(("M2", "2S-M2"), lambda x, kept: float(pca(x, kept)[1].sum()), "variance in {} components", LOW)),
)  # fmt: skip
FIG11 = Item(
    "fig11", "Distance of nearest neighbours", "neighbours in the hybrid's embedding are neighbours in the sequence",
    lines(
        _distances, "K", "model", title="Distance of the K nearest neighbours", xlabel="K", ylabel="mean |i - j|", ylim=None,
        level=_chance, note=lambda e: f"Grey: chance, {_chance(e):.3g}.",
    ),
    studied("embeddings-neighbours", "position", ("RoPE", "HI-M2-1")),
    (
        Claim("F6-neighbours", f"The two nearest neighbours are on average at most {NEAR} times as far as by chance in "
              f"interleaved 1:1, and at least {FAR} times in RoPE", lambda e: near_in(e, ("HI-M2-1",))),
    ),
    differs("position", tiny=HEAD, small=HEAD, paper="Not stated, so chosen: nearest by cosine similarity."),
    ("snapshots",),
)  # fmt: skip
