"""Figures 4b, 4c and 12: sequences longer than those trained on; and whether the residual sums of the released code matter."""

from collections.abc import Sequence
from functools import partial
from itertools import product

import pandas as pd

from recollect.analysis.efficiency import data_efficiency, log_times
from recollect.analysis.groups import groups
from recollect.analysis.pooled import pool
from recollect.analysis.window import THRESHOLD
from recollect.figures.panels import lines_figure, mean_and_range
from recollect.papers.estimates import Estimate, NotEnough, mean_of
from recollect.papers.examples import examples_needed, ratio_of
from recollect.papers.item import Draw, Drawing, Item, table
from recollect.papers.judge import Claim, Evidence, Scale, claim, where
from recollect.papers.questions import Finding, all_of, any_of, at_least, at_most, between, every, exceeds, within
from recollect.papers.retrievit2026.settings import (
    CONTROLLED,
    FIVE,
    SETTINGS,
    SSMS,
    TITLES,
    Models,
    TaskName,
    blocks,
    differs,
    studied,
    study,
)
from recollect.papers.retrievit2026.view import VARIANT, learnt, of, view
from recollect.study.spec import Study

NEAR_PERFECT, FAILS, ALIKE, BOOST, WORSE = 0.9, 0.5, 0.15, 0.1, 0.02
"""Near-perfect generalisation, as a share of the accuracy at the trained length; and accuracies: the most of a failure; the most
by which similar models differ; the least boost; the most by which a model that is no worse is below."""
FACTOR = 2.0
"""Numbers of examples that differ by less than this factor count as equal."""
HYBRIDS = ("HI-M2-1", "2S-M2")
TRAINED = f"after training to at least {THRESHOLD} at the trained length"


def length_column(scale: Scale, length: int) -> str:
    """The column of a table of runs that has the accuracy at a length."""
    place = SETTINGS[scale].lengths.index(length)
    return f"final.tests.{place - 1}.accuracy" if place else "accuracy"


def accuracy_at(
    evidence: Evidence, name: str, query: str, times_longer: float, *, relative: bool = False, **values: str
) -> Estimate:
    """Accuracy at a multiple of the trained length, of the runs that have learnt the task; `relative`: over that at the trained
    length."""
    lengths = SETTINGS[evidence.scale].lengths
    rows = learnt(of(evidence, name, query=query, **values), f"{name} ({query})")
    length = min(lengths, key=lambda tried: abs(tried - times_longer * lengths[0]))
    column = length_column(evidence.scale, length)
    if column not in rows:
        raise NotEnough(f"no test at length {length}")
    label = "".join((f"{name}, ", *(f"{value}, " for value in values.values()), f"{query}, length {length}"))
    known = view(evidence).dropna(subset=column)
    known = known.loc[known["accuracy"] >= THRESHOLD]
    parts = [part for _, part in groups(known, ["name", *(field for field in VARIANT if field in known)])]
    if relative:
        shares = pool(list(part[column] / part["accuracy"]) for part in parts)
        return mean_of(rows[column] / rows["accuracy"], f"{label} over length {lengths[0]}", shares)
    return mean_of(rows[column], label, pool((list(part[column]) for part in parts), bounded=True))


def _hybrids_extrapolate(evidence: Evidence, query: str) -> Finding:
    """Whether both hybrids keep most of their accuracy at 4 times the trained length."""
    return every(HYBRIDS, lambda name: at_least(accuracy_at(evidence, name, query, 4, relative=True), NEAR_PERFECT))


def _better(evidence: Evidence, one: str, other: str, by: float = 0.0) -> Finding:
    """Whether one model has more than another at 4 times the trained length, the query after the sequence."""
    return exceeds(accuracy_at(evidence, one, "suffix", 4), accuracy_at(evidence, other, "suffix", 4), by)


@claim("F2-nope")
def _nope_like_mamba2(evidence: Evidence) -> Finding:
    """NoPE and Mamba2 differ by at most {ALIKE} at 2 and 4 times the trained length, {TRAINED}"""

    def same(n: int) -> Finding:
        return within(accuracy_at(evidence, "NoPE", "suffix", n), accuracy_at(evidence, "M2", "suffix", n), ALIKE)

    return every((2, 4), same)


@claim("F2-prefix-helps")
def _prefix_helps(evidence: Evidence) -> Finding:
    """At 4 times the trained length Mamba2 has at least {BOOST} more with the query before the sequence than after it,
    {TRAINED}"""
    prefix, suffix = (accuracy_at(evidence, "M2", query, 4) for query in ("prefix", "suffix"))
    return exceeds(prefix, suffix, BOOST)


def _boosted(evidence: Evidence, name: str) -> Finding:
    """The same at twice the length, of any model; one that is near perfect may stay so."""
    prefix, suffix = (accuracy_at(evidence, name, query, 2) for query in ("prefix", "suffix"))
    return any_of(exceeds(prefix, suffix), all_of(at_least(suffix, NEAR_PERFECT), exceeds(prefix, suffix, -WORSE)))


def _residual_ratio(evidence: Evidence, name: str) -> Estimate:
    """Examples with the released residual sums over those with clean ones."""
    found = examples_needed(evidence.curves, view(evidence))
    runs = evidence.whole(where(found, name=name))
    released, clean = (where(runs, residual=residual) for residual in ("released", "clean"))
    pooled = pool(log_times(found, ["name", "model.residual"]))
    return ratio_of(released, clean, f"{name}: examples, released / clean", pooled)


@claim("F2-residual", CONTROLLED)
def _same_extrapolation(evidence: Evidence) -> Finding:
    """Released residual sums change a hybrid's accuracy at 4 times the trained length by at most {BOOST}, {TRAINED}"""

    def same(name: str) -> Finding:
        released, clean = (accuracy_at(evidence, name, "suffix", 4, residual=sums) for sums in ("released", "clean"))
        return within(released, clean, BOOST)

    return every(HYBRIDS, same)


def draw(title: str, queries: Sequence[str], evidence: Evidence, caption: str) -> Drawing:
    """Accuracy against test length, a line per model, a panel per kind of query."""
    runs, lengths = view(evidence), SETTINGS[evidence.scale].lengths
    rows = [
        (run["task.query"], TITLES[run["name"]], length, run[column])
        for length in lengths
        for run in runs.loc[runs["task.query"].isin(queries)].to_dict("records")
        if (column := length_column(evidence.scale, length)) in run
    ]
    frame = pd.DataFrame(rows, columns=["query", "model", "length", "accuracy"]).dropna(subset="accuracy")
    table = mean_and_range(frame, ["query", "model", "length"])
    figure = lines_figure(
        table, "length", "model", "query", title=title, caption=f"{caption} Dotted: the longest trained length.",
        xlabel="length of the test sequences", logx=False, marks=lengths[:1], columns=2,
    )  # fmt: skip
    return figure, table


def residual_studies(scale: Scale) -> list[Study]:
    """The two hybrids with clean and with released residual sums; RoPE, which has none to choose, beside them."""
    return [
        study("residual-clean", scale, "suffix-99", ("RoPE", *HYBRIDS)),
        study("residual-released", scale, "suffix-99", HYBRIDS, residual="released"),
    ]


def _by_residual(evidence: Evidence) -> pd.DataFrame:
    """Examples and extrapolation of each hybrid, clean and released."""
    examples = f"examples to {THRESHOLD}"
    columns = ["model", "residual sums", examples, "low", "high", "accuracy", "accuracy at 4 x length"]
    rows, runs = [], view(evidence)
    if len(runs) and len(evidence.curves):
        longest = length_column(evidence.scale, SETTINGS[evidence.scale].lengths[-1])
        found = data_efficiency(examples_needed(evidence.curves, runs), ["name", "model.residual"])
        for row in found.to_dict("records"):
            inside = where(runs, name=row["name"], residual=row["model.residual"])
            far = inside[longest].mean() if longest in inside else float("nan")
            needed = (row["median"], row["low"], row["high"])
            rows.append((TITLES[row["name"]], row["model.residual"], *needed, inside["accuracy"].mean(), far))
    return pd.DataFrame(rows, columns=columns)


_LENGTHS = differs("ngram", tiny="Lengths up to 48.", small="Lengths up to 200.")


def _item(
    name: str,
    title: str,
    shows: str,
    draw: Draw,
    part: str,
    tasks: tuple[TaskName, ...],
    models: Models,
    *claims: Claim,
) -> Item:
    """An item that shows accuracy against length."""
    each = [studied(f"{task.partition('-')[0]}{part}-99", task, models) for task in tasks]
    return Item(name, title, shows, draw, lambda scale: [one for made in each for one in made(scale)], claims, _LENGTHS)


FIG4B = _item(
    "fig4b", "Length extrapolation, suffix", "hybrids extrapolate, RoPE does not; NoPE behaves like Mamba2",
    partial(draw, "Extrapolation, query after the sequence", ("suffix",)), "", ("suffix-99",), FIVE,
    Claim(
        "F2-hybrids",
        "With the query after the sequence both Mamba2 hybrids have at 4 times the trained length at least "
        f"{NEAR_PERFECT} of their accuracy at the trained length itself, {TRAINED}",
        lambda e: _hybrids_extrapolate(e, "suffix"),
    ),
    Claim(
        "F2-rope-fails",
        f"RoPE has at most {FAILS} at 4 times the trained length, {TRAINED}",
        lambda e: at_most(accuracy_at(e, "RoPE", "suffix", 4), FAILS),
    ),
    Claim(
        "F2-hybrids-best",
        f"At 4 times the trained length both hybrids exceed RoPE and Mamba2, {TRAINED}",
        lambda e: every(product(HYBRIDS, ("RoPE", "M2")), lambda two: _better(e, *two)),
    ),
    _nope_like_mamba2,
    Claim(
        "F2-mamba2-over-rope",
        f"At 4 times the trained length Mamba2 exceeds RoPE, {TRAINED}",
        lambda evidence: _better(evidence, "M2", "RoPE"),
    ),
)  # fmt: skip
FIG4C = _item(
    "fig4c", "Length extrapolation, prefix", "with the query first, Mamba2 extrapolates better",
    partial(draw, "Extrapolation, query before the sequence", ("prefix",)), "", ("prefix-99", "suffix-99"), FIVE,
    Claim(
        "F2-hybrids-prefix",
        "With the query before the sequence both Mamba2 hybrids have at 4 times the trained length at least "
        f"{NEAR_PERFECT} of their accuracy at the trained length itself, {TRAINED}",
        lambda e: _hybrids_extrapolate(e, "prefix"),
    ),
    _prefix_helps,
    Claim(
        "F2-prefix-helps-all",
        f"At twice the trained length every model has more with the query before the sequence than after it; or at least "
        f"{NEAR_PERFECT} after it, and before it at most {WORSE} less; {TRAINED}",
        lambda e: every(FIVE, lambda name: _boosted(e, name)),
    ),
)  # fmt: skip
FIG12 = _item(
    "fig12", "Length extrapolation of interleaved models", "fewer Transformer layers extrapolate further",
    partial(draw, "Extrapolation, interleaved N:1", ("suffix", "prefix")), "-blocks", ("suffix-99", "prefix-99"), blocks,
    Claim(
        "fewer-attention-layers",
        f"With the query after the sequence, interleaved 4:1 exceeds 1:1 at 4 times the trained length, {TRAINED}",
        lambda e: every(SSMS[e.scale], lambda name: _better(e, f"HI-{name}-4", f"HI-{name}-1")),
    ),
    Claim(
        "mamba2-blocks-better",
        "With the query after the sequence, interleaved models of Mamba2 exceed those of Mamba at 4 times the trained "
        f"length, N = 1 to 4, {TRAINED}",
        lambda e: every((1, 2, 3, 4), lambda n: _better(e, f"HI-M2-{n}", f"HI-M-{n}")),
    ),
)  # fmt: skip
RESIDUAL = Item(
    "residual", "Control: residual sums", "what the residual sums of the released code change in findings 1 and 2",
    table(_by_residual, "Control: clean and released residual sums"), residual_studies,
    (
        Claim(
            "F1-residual",
            f"Released residual sums change the examples that a hybrid needs by less than a factor {FACTOR:g}",
            lambda e: every(HYBRIDS, lambda name: between(_residual_ratio(e, name), 1 / FACTOR, FACTOR)), CONTROLLED,
        ),
        _same_extrapolation,
    ),
    differs("ngram", paper="The printed formulas are the clean sums; the released code has others."), ("curves",),
)  # fmt: skip
