"""Figures 9, 10, 11, 20, 21, 22: the embeddings of position tokens; how SSMs and Transformers tell positions apart.

In position retrieval, as `settings` has it. Scales other than `paper` tie no head, and show the head's embeddings (see `tying`).
"""

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import pandas as pd

from recollect.analysis.embeddings import chance_distance, cosine, neighbour_distance, pca, spiral
from recollect.figures.heatmaps import heatmaps_figure, long_table
from recollect.figures.panels import lines_figure, summary
from recollect.figures.scatter import scatter_figure
from recollect.papers.item import Drawing, Item
from recollect.papers.judge import (
    Claim,
    Estimate,
    Evidence,
    Finding,
    NotEnough,
    Scale,
    all_of,
    at_least,
    at_most,
    exceeds,
    spread,
)
from recollect.papers.retrievit2026.settings import (
    HALF,
    SETTINGS,
    TITLES,
    TRANSFORMERS,
    differs,
    learnt,
    of,
    study,
    view,
)  # fmt: skip
from recollect.study.study import Study

SHARES = (0.25, 0.5, 0.75, 1.0)
NEIGHBOURS = (1, 2, 5, 10, 20, 50)
NEAR, FAR, LOCAL = 0.5, 0.75, 0.3
"""The mean distance of nearest neighbours over that of chance, where embeddings are local and where they are not; and by how much
the cosine similarity of adjacent positions exceeds that of others where they are."""
COMPONENTS = (32, 64, 128)
"""Principal components, of 200 positions; fewer positions have as many fewer."""
FIG9_MODELS, FIG22_MODELS = ("RoPE", "NoPE", "M2", "HI-M2-1"), ("RoPE", "NoPE", "M2", "2S-M2")
RATIOS = ("HI-M2-1", "HI-M2-2", "HI-M2-3", "HI-M2-4")


def has_learnt(evidence: Evidence, *models: str, **values: bool) -> None:
    """NotEnough where a model has not learnt the task: that its embeddings have no structure then says nothing."""
    for name in models:
        learnt(of(evidence, name, **values), name, HALF)


def embeddings(
    evidence: Evidence, name: str, share: float = 1.0, table: str = "", tie: bool | None = None
) -> list[np.ndarray]:
    """The embeddings (positions, width) of a model's runs at a share of training; `table`: input or output, or what is shown."""
    runs = view(evidence)
    inside = runs.loc[(runs["name"] == name) & ((runs["model.tie"] == tie) if tie is not None else True), "id"]
    if inside.empty or evidence.snapshots.empty:
        raise NotEnough(f"no embeddings of {name} are there")
    table = table or ("input" if evidence.scale == "paper" else "output")
    rows = evidence.snapshots.loc[evidence.snapshots["run"].isin(inside) & (evidence.snapshots["share"] == share)]
    return [row["input"] if row[table] is None else row[table] for row in rows.to_dict("records")]  # None: tied


def components(scale: Scale) -> tuple[int, ...]:
    """How many principal components stand for the paper's 32, 64 and 128."""
    return tuple(max(2, round(n * SETTINGS[scale].position / 200)) for n in COMPONENTS)


def locality(x: np.ndarray, kept: int | None) -> float:
    """By how much the cosine similarity of adjacent positions exceeds that of the others."""
    similar, apart = cosine(x, kept), np.abs(np.subtract.outer(np.arange(len(x)), np.arange(len(x))))
    return float(similar[apart == 1].mean() - similar[apart > 1].mean())


def nearness(x: np.ndarray) -> float:
    """The mean distance to the two nearest neighbours, over that of chance."""
    return float(neighbour_distance(x, (2,))[0] / chance_distance(len(x)))


def _over_seeds(found: list[np.ndarray], what: Callable[[np.ndarray], float], name: str) -> Estimate:
    return spread((what(x) for x in found), name)


def _spirals(evidence: Evidence, name: str, share: float = 1.0) -> Estimate:
    found = embeddings(evidence, name, share)
    return _over_seeds(found, lambda x: float(spiral(x).found), f"{name}: share of runs with a spiral at {share:.0%}")


def _monotone(evidence: Evidence, name: str, share: float) -> Estimate:
    found = embeddings(evidence, name, share)
    return _over_seeds(found, lambda x: spiral(x).monotone, f"{name}: monotone angle at {share:.0%}")


def _locality(evidence: Evidence, name: str, kept: int | None) -> Estimate:
    shown = "all" if kept is None else str(kept)
    return _over_seeds(
        embeddings(evidence, name), lambda x: locality(x, kept), f"{name}: locality in {shown} dimensions"
    )


def _local(names: Sequence[str], every: bool) -> Callable[[Evidence], Finding]:
    """Whether adjacent positions are alike: in the fewest dimensions, or in every number of them."""

    def test(evidence: Evidence) -> Finding:
        dims = (*components(evidence.scale), None) if every else components(evidence.scale)[:1]
        return all_of(*(at_least(_locality(evidence, name, kept), LOCAL) for name in names for kept in dims))

    return test


def _not_local(family: str) -> tuple[Claim, ...]:
    """That adjacent positions are no more alike than others in Transformers: a claim for each, as either may not have learnt."""

    def claim(name: str) -> Claim:
        def test(evidence: Evidence) -> Finding:
            has_learnt(evidence, name)
            return at_most(_locality(evidence, name, components(evidence.scale)[0]), LOCAL)

        says = f"In {name}, in the fewest components shown, adjacent positions are more alike than others by at most {LOCAL}"
        return Claim(f"{family}-{name}-not-local", says, test)

    return tuple(map(claim, TRANSFORMERS))


def _deviate(evidence: Evidence) -> Finding:
    return all_of(
        *(exceeds(_monotone(evidence, name, 0.25), _monotone(evidence, name, 1.0)) for name in (*RATIOS, "2S-M2"))
    )


def near(evidence: Evidence, name: str, **which) -> Estimate:
    words = "".join(
        f", {'tied' if value is True else 'untied' if value is False else value}" for value in which.values()
    )
    return _over_seeds(embeddings(evidence, name, **which), nearness, f"{name}{words}: neighbours' distance / chance")


def _no_spiral(name: str) -> Claim:
    def test(evidence: Evidence) -> Finding:
        has_learnt(evidence, name)
        return at_most(_spirals(evidence, name), 0.0)

    return Claim(
        f"F6-{name}-no-spiral",
        f"No run of {name}, once it has learnt the task (accuracy at least {HALF}), ends with one",
        test,
    )


def _neighbours(evidence: Evidence) -> Finding:
    has_learnt(evidence, "RoPE")
    return all_of(at_most(near(evidence, "HI-M2-1"), NEAR), at_least(near(evidence, "RoPE"), FAR))


def _first(evidence: Evidence, name: str, share: float = 1.0) -> np.ndarray | None:
    """The embeddings of the first seed, which is drawn."""
    try:
        found = embeddings(evidence, name, share)
    except NotEnough:
        return None
    return found[0] if found else None


def draw_planes(title: str, names: Sequence[str]) -> Callable[[Evidence, str], Drawing]:
    """The first two principal components, a row a share of training, a column a model."""

    def drawing(evidence: Evidence, caption: str) -> Drawing:
        cells, rows = {}, []
        for share, name in product(SHARES, names):
            if (x := _first(evidence, name, share)) is not None:
                points, explained = pca(x, 2)
                cells[f"{share:.0%}", TITLES[name]] = points
                rows += [(TITLES[name], share, i + 1, *point, explained.sum()) for i, point in enumerate(points)]
        figure = scatter_figure(
            cells, [f"{share:.0%}" for share in SHARES], [TITLES[name] for name in names], title=title, caption=caption,
            order="position",
        )  # fmt: skip
        return figure, pd.DataFrame(rows, columns=["model", "share", "position", "first", "second", "explained"])

    return drawing


def _similar(x: np.ndarray, kept: int | None) -> pd.DataFrame:
    places = range(1, len(x) + 1)
    return pd.DataFrame(cosine(x, kept), index=places, columns=places)


def draw_similarity(title: str, names: Sequence[str], over_time: bool) -> Callable[[Evidence, str], Drawing]:
    """Cosine similarity of every two positions: a row a share of training, or a row a number of principal components."""

    def drawing(evidence: Evidence, caption: str) -> Drawing:
        dims = components(evidence.scale)
        rows = {f"{share:.0%}": (share, dims[0]) for share in SHARES} if over_time else {
            **{f"PCA {kept}": (1.0, kept) for kept in dims}, "no PCA": (1.0, None)}  # fmt: skip
        cells = {
            (row, TITLES[name]): _similar(x, kept)
            for (row, (share, kept)), name in product(rows.items(), names)
            if (x := _first(evidence, name, share)) is not None
        }
        figure = heatmaps_figure(
            cells, list(rows), [TITLES[name] for name in names], title=title, caption=caption, xlabel="position",
            ylabel="position", value="cosine similarity", limits=(-1.0, 1.0),
        )  # fmt: skip
        return figure, long_table(cells, ("position", "other"), "cosine")

    return drawing


def draw_neighbours(evidence: Evidence, caption: str) -> Drawing:
    """Mean |i - j| over the K nearest neighbours, against K."""
    n = SETTINGS[evidence.scale].position
    tried, rows = tuple(k for k in NEIGHBOURS if k < n), []
    for name in ("RoPE", "HI-M2-1"):
        try:
            for x in embeddings(evidence, name):
                found = zip(tried, neighbour_distance(x, tried), strict=True)
                rows += [{"model": TITLES[name], "K": k, "distance": distance} for k, distance in found]
        except NotEnough:
            continue
    table = summary(pd.DataFrame(rows, columns=["model", "K", "distance"]), ["model", "K"], "distance")
    figure = lines_figure(
        table, "K", "model", title="Figure 11: distance of the K nearest neighbours", xlabel="K", ylabel="mean |i - j|",
        caption=f"{caption} Grey: chance, {chance_distance(n):.3g}.", ylim=None,
    )  # fmt: skip
    figure.axes[0].axhline(chance_distance(n), color="#777777", linewidth=1)
    return figure, table


def _studies(part: str, names: Sequence[str]) -> Callable[[Scale], list[Study]]:
    return lambda scale: [study(part, scale, "position", names)]


_HEAD = "No head is tied here, so that the head's embeddings are shown; the paper shows input embeddings."
_DIFFERS = differs(tiny=_HEAD, small=_HEAD)
_SPIRAL = "a spiral (net angle in the plane of two components over half of the angle travelled and above chance, 3/4 of a turn)"
FIG9 = Item(
    "fig9",
    "Position embeddings over training",
    "SSMs form a spiral, Transformers none",
    draw_planes("Figure 9: position embeddings, first two components", FIG9_MODELS),
    _studies("embeddings", FIG9_MODELS),
    (
        Claim(
            "F6-spiral",
            f"Every run of Mamba2 ends with {_SPIRAL}",
            lambda evidence: at_least(_spirals(evidence, "M2"), 1.0),
        ),
        *map(_no_spiral, TRANSFORMERS),
    ),
    _DIFFERS,
    ("snapshots",),
)
FIG20 = Item(
    "fig20",
    "Position embeddings of hybrids over training",
    "hybrids begin with a spiral and leave it",
    draw_planes("Figure 20: position embeddings of hybrids", (*RATIOS, "2S-M2")),
    _studies("embeddings-hybrids", (*RATIOS, "2S-M2")),
    (
        Claim(
            "F6-early-spiral",
            f"After a quarter of its training every run of every hybrid has {_SPIRAL}",
            lambda evidence: all_of(*(at_least(_spirals(evidence, name, 0.25), 1.0) for name in (*RATIOS, "2S-M2"))),
        ),
        Claim(
            "F6-leave-spiral",
            "In every hybrid the angle is less monotone at the end than after a quarter of the training",
            _deviate,
        ),
    ),
    _DIFFERS,
    ("snapshots",),
)
FIG10 = Item(
    "fig10",
    "Cosine similarity of position embeddings over training",
    "SSMs and hybrids are local, Transformers are not",
    draw_similarity("Figure 10: cosine similarity after PCA", FIG9_MODELS, over_time=True),
    _studies("embeddings", FIG9_MODELS),
    (
        Claim(
            "F6-local",
            f"In Mamba2 and interleaved 1:1, in the fewest components shown, adjacent positions are more alike than others by "
            f"at least {LOCAL} in cosine similarity",
            _local(("M2", "HI-M2-1"), every=False),
        ),
        *_not_local("F6"),
    ),
    _DIFFERS,
    ("snapshots",),
)
FIG21 = Item(
    "fig21",
    "Cosine similarity of position embeddings, interleaved",
    "all ratios are local, whatever the dimensions",
    draw_similarity("Figure 21: cosine similarity, interleaved N:1", RATIOS, over_time=False),
    _studies("embeddings-ratios", RATIOS),
    (
        Claim(
            "F6-ratios-local",
            f"With and without PCA adjacent positions are more alike than others by at least {LOCAL}, N = 1 to 4",
            _local(RATIOS, every=True),
        ),
    ),
    _DIFFERS,
    ("snapshots",),
)
FIG22 = Item(
    "fig22",
    "Cosine similarity of position embeddings, one of each family",
    "Mamba2 and two-stream are local, Transformers are not",
    draw_similarity("Figure 22: cosine similarity", FIG22_MODELS, over_time=False),
    _studies("embeddings-families", FIG22_MODELS),
    (
        Claim(
            "F6-families-local",
            "In Mamba2 and two-stream Mamba2, with and without PCA, adjacent positions are more alike than others "
            f"by at least {LOCAL}",
            _local(("M2", "2S-M2"), every=True),
        ),
        *_not_local("F6-families"),
    ),
    _DIFFERS,
    ("snapshots",),
)
FIG11 = Item(
    "fig11",
    "Distance of nearest neighbours",
    "neighbours in the hybrid's embedding are neighbours in the sequence",
    draw_neighbours,
    _studies("embeddings-neighbours", ("RoPE", "HI-M2-1")),
    (
        Claim(
            "F6-neighbours",
            f"The two nearest neighbours are on average at most {NEAR} times as far as by chance in interleaved 1:1, and at "
            f"least {FAR} times in RoPE",
            _neighbours,
        ),
    ),
    differs(tiny=_HEAD, small=_HEAD, paper="Not stated, so chosen: nearest by cosine similarity."),
    ("snapshots",),
)
