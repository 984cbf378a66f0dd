"""Figures 4b, 4c and 12: sequences longer than those trained on; and whether the residual sums of the released code matter."""

from collections.abc import Sequence
from functools import partial
from itertools import product

import pandas as pd

from recollect.analysis.efficiency import data_efficiency, log_times
from recollect.analysis.groups import groups
from recollect.analysis.pooled import pool
from recollect.analysis.window import THRESHOLD
from recollect.figures.panels import mean_and_range
from recollect.papers.estimates import Estimate, NotEnough, mean_of
from recollect.papers.examples import examples_needed, ratio_of
from recollect.papers.item import Item, lines, table
from recollect.papers.judge import Claim, Evidence, Scale, Test, where
from recollect.papers.questions import Finding, all_of, any_of, at_least, at_most, between, every, exceeds, within
from recollect.papers.retrievit2026 import settings
from recollect.papers.retrievit2026.settings import Models, TaskName, blocks, differs, studied, study
from recollect.papers.retrievit2026.view import VARIANT, each, learnt, of, view
from recollect.study.spec import Study

NEAR_PERFECT, FAILS, ALIKE, BOOST, WORSE = 0.9, 0.5, 0.15, 0.1, 0.02
"""Near-perfect generalisation, as a share of the accuracy at the trained length; and accuracies: the most of a failure; the most
by which similar models differ; the least boost; the most by which a model that is no worse is below."""
FACTOR = 2.0
"""Numbers of examples that differ by less than this factor count as equal."""
TRAINED = f"after training to at least {THRESHOLD} at the trained length"


def length_column(scale: Scale, length: int) -> str:
    """The column of a table of runs that has the accuracy at a length."""
    place = settings.SETTINGS[scale].lengths.index(length)
    return f"final.tests.{place - 1}.accuracy" if place else "accuracy"


def accuracy_at(
    evidence: Evidence, name: str, query: str, times_longer: float, *, relative: bool = False, **values: str
) -> Estimate:
    """Accuracy at a multiple of the trained length, of the runs that have learnt the task; `relative`: over that at the trained
    length."""
    lengths = settings.SETTINGS[evidence.scale].lengths
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


def _extrapolates(query: str) -> Test:
    """Whether both hybrids keep most of their accuracy at 4 times the trained length."""
    return each(
        settings.M2_HYBRIDS, lambda e, name: at_least(accuracy_at(e, name, query, 4, relative=True), NEAR_PERFECT)
    )


def _better(evidence: Evidence, one: str, other: str) -> Finding:
    """Whether one model has more than another at 4 times the trained length, the query after the sequence."""
    return exceeds(accuracy_at(evidence, one, "suffix", 4), accuracy_at(evidence, other, "suffix", 4))


def _nope_like_mamba2(evidence: Evidence) -> Finding:
    def same(n: int) -> Finding:
        return within(accuracy_at(evidence, "NoPE", "suffix", n), accuracy_at(evidence, "M2", "suffix", n), ALIKE)

    return every((2, 4), same)


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


def _same_extrapolation(evidence: Evidence, name: str) -> Finding:
    released, clean = (accuracy_at(evidence, name, "suffix", 4, residual=sums) for sums in ("released", "clean"))
    return within(released, clean, BOOST)


def _by_length(queries: Sequence[str], evidence: Evidence) -> pd.DataFrame:
    """Accuracy against test length, by kind of query and model."""
    runs = view(evidence)
    rows = [
        (run["task.query"], settings.TITLES[run["name"]], length, run[column])
        for length in settings.SETTINGS[evidence.scale].lengths
        for run in runs.loc[runs["task.query"].isin(queries)].to_dict("records")
        if (column := length_column(evidence.scale, length)) in run
    ]
    frame = pd.DataFrame(rows, columns=["query", "model", "length", "accuracy"]).dropna(subset="accuracy")
    return mean_and_range(frame, ["query", "model", "length"])


def residual_studies(scale: Scale) -> list[Study]:
    """The two hybrids with clean and with released residual sums; RoPE, which has none to choose, beside them."""
    return [
        study("residual-clean", scale, "suffix-99", ("RoPE", *settings.M2_HYBRIDS)),
        study("residual-released", scale, "suffix-99", settings.M2_HYBRIDS, residual="released"),
    ]


def _by_residual(evidence: Evidence) -> pd.DataFrame:
    """Examples and extrapolation of each hybrid, clean and released."""
    examples = f"examples to {THRESHOLD}"
    columns = ["model", "residual sums", examples, "low", "high", "accuracy", "accuracy at 4 x length"]
    rows, runs = [], view(evidence)
    if len(runs) and len(evidence.curves):
        longest = length_column(evidence.scale, settings.SETTINGS[evidence.scale].lengths[-1])
        found = data_efficiency(examples_needed(evidence.curves, runs), ["name", "model.residual"])
        for row in found.to_dict("records"):
            inside = where(runs, name=row["name"], residual=row["model.residual"])
            far = inside[longest].mean() if longest in inside else float("nan")
            needed = (row["median"], row["low"], row["high"])
            rows.append((settings.TITLES[row["name"]], row["model.residual"], *needed, inside["accuracy"].mean(), far))
    return pd.DataFrame(rows, columns=columns)


_KEEP = (
    f"both Mamba2 hybrids have at 4 times the trained length at least {NEAR_PERFECT} of their accuracy at the trained length "
    f"itself, {TRAINED}"
)
_LENGTHS = differs("ngram", tiny="Lengths up to 48.", small="Lengths up to 200.")


def _item(
    name: str,
    about: tuple[str, str, str],
    queries: str,
    part: str,
    tasks: Sequence[TaskName],
    models: Models,
    *claims: Claim,
) -> Item:
    """An item that shows accuracy against length, a panel per kind of query; `about`: its title, what it shows, and the title
    of the picture."""
    title, shows, drawn = about
    draw = lines(
        partial(_by_length, queries.split()), "length", "model", "query", title=drawn, xlabel="length of the test sequences",
        logx=False, columns=2, marks=lambda e: settings.SETTINGS[e.scale].lengths[:1],
        note="Line: mean; band: lowest to highest seed; dotted: the longest trained length.",
    )  # fmt: skip
    each = [studied(f"{task.partition('-')[0]}{part}-99", task, models) for task in tasks]
    return Item(name, title, shows, draw, lambda scale: [one for made in each for one in made(scale)], claims, _LENGTHS)


FIG4B = _item(
    "fig4b",
    ("Length extrapolation, suffix", "hybrids extrapolate, RoPE does not; NoPE behaves like Mamba2",
     "Extrapolation, query after the sequence"),
    "suffix", "", ("suffix-99",), settings.FIVE,
    Claim("F2-hybrids", f"With the query after the sequence {_KEEP}", _extrapolates("suffix")),
    Claim("F2-rope-fails", f"RoPE has at most {FAILS} at 4 times the trained length, {TRAINED}",
          lambda e: at_most(accuracy_at(e, "RoPE", "suffix", 4), FAILS)),
    Claim("F2-hybrids-best", f"At 4 times the trained length both hybrids exceed RoPE and Mamba2, {TRAINED}",
          lambda e: every(product(settings.M2_HYBRIDS, ("RoPE", "M2")), lambda one, other: _better(e, one, other))),
    Claim("F2-nope", f"NoPE and Mamba2 differ by at most {ALIKE} at 2 and 4 times the trained length, {TRAINED}",
          _nope_like_mamba2),
    Claim("F2-mamba2-over-rope", f"At 4 times the trained length Mamba2 exceeds RoPE, {TRAINED}",
          lambda e: _better(e, "M2", "RoPE")),
)  # fmt: skip
FIG4C = _item(
    "fig4c",
    ("Length extrapolation, prefix", "with the query first, Mamba2 extrapolates better",
     "Extrapolation, query before the sequence"),
    "prefix", "", ("prefix-99", "suffix-99"), settings.FIVE,
    Claim("F2-hybrids-prefix", f"With the query before the sequence {_KEEP}", _extrapolates("prefix")),
    Claim("F2-prefix-helps", f"At 4 times the trained length Mamba2 has at least {BOOST} more with the query before the sequence "
          f"than after it, {TRAINED}",
          lambda e: exceeds(*(accuracy_at(e, "M2", query, 4) for query in ("prefix", "suffix")), by=BOOST)),
    Claim("F2-prefix-helps-all", "At twice the trained length every model has more with the query before the sequence than after "
          f"it; or at least {NEAR_PERFECT} after it, and before it at most {WORSE} less; {TRAINED}",
          each(settings.FIVE, _boosted)),
)  # fmt: skip
FIG12 = _item(
    "fig12",
    ("Length extrapolation of interleaved models", "fewer Transformer layers extrapolate further",
     "Extrapolation, interleaved N:1"),
    "suffix prefix", "-blocks", ("suffix-99", "prefix-99"), blocks,
    Claim("fewer-attention-layers", "With the query after the sequence, interleaved 4:1 exceeds 1:1 at 4 times the trained "
          f"length, {TRAINED}", each(settings.SSMS, lambda e, name: _better(e, f"HI-{name}-4", f"HI-{name}-1"))),
    Claim("mamba2-blocks-better", "With the query after the sequence, interleaved models of Mamba2 exceed those of Mamba at 4 "
          f"times the trained length, N = 1 to 4, {TRAINED}",
          each("1234", lambda e, n: _better(e, f"HI-M2-{n}", f"HI-M-{n}"))),
)  # fmt: skip
RESIDUAL = Item(
    "residual", "Control: residual sums", "what the residual sums of the released code change in findings 1 and 2",
    table(_by_residual, "Control: clean and released residual sums"), residual_studies,
    (
        Claim("F1-residual", f"Released residual sums change the examples that a hybrid needs by less than a factor {FACTOR:g}",
              each(settings.M2_HYBRIDS, lambda e, name: between(_residual_ratio(e, name), 1 / FACTOR, FACTOR)),
              settings.CONTROLLED),
        Claim("F2-residual", "Released residual sums change a hybrid's accuracy at 4 times the trained length by at most "
              f"{BOOST}, {TRAINED}", each(settings.M2_HYBRIDS, _same_extrapolation), settings.CONTROLLED),
    ),
    differs("ngram", paper="The printed formulas are the clean sums; the released code has others."), ("curves",),
)  # fmt: skip
