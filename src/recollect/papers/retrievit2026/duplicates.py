"""Figures 5, 6, 14, 15 and 16: which of several right answers a model gives, and how often none."""

from collections.abc import Sequence
from functools import partial
from itertools import product

import numpy as np
import pandas as pd

from recollect.analysis.choices import duplicate_measures, preference_matrix
from recollect.analysis.groups import groups
from recollect.analysis.pooled import pool
from recollect.analysis.window import THRESHOLD
from recollect.figures.grids import heatmaps_figure, long_table
from recollect.figures.panels import lines_figure, mean_and_range
from recollect.papers.estimates import Estimate, NotEnough, mean_of
from recollect.papers.item import Draw, Drawing, Item
from recollect.papers.judge import Claim, Evidence, Scale, claim
from recollect.papers.questions import Finding, all_of, at_least, at_most, every, exceeds, not_
from recollect.papers.retrievit2026 import settings
from recollect.papers.retrievit2026.settings import Models, Trained, at_scale, blocks, differs, studies
from recollect.papers.retrievit2026.view import learnt, of, rows_of, view
from recollect.study.spec import Study

HIGHER, MISSES, RECENT, EVEN, BIAS = 0.02, 0.3, 0.8, 0.2, 0.05
"""The least difference of a higher error rate; that of a model that fails to match; the least share of the last segment that
counts as recency; the largest `uneven` of even choices (half the sum of |share - 1/s|); the least by which the share of the last
segment exceeds an even one where there is a bias."""
QUERIES = ("suffix", "prefix")
FLOOR = 1e-3
"""Of error rates in a picture, whose axis is logarithmic."""
LEARNT = f"after training to at least {THRESHOLD}"


def measures(evidence: Evidence, runs: pd.DataFrame) -> pd.DataFrame:
    """One row per run and number of segments: model, query, error rate, share of the last segment, unevenness."""
    if evidence.slices.empty or runs.empty:
        return pd.DataFrame(columns=["run", "name", "query", "segments", "error", "last", "uneven"])
    about = runs.rename(columns={"task.query": "query"})[["id", "name", "query"]]
    return duplicate_measures(rows_of(evidence.slices, runs["id"])).merge(about, left_on="run", right_on="id")


WORDS = {
    "error": "error rate", "last": "share of the last segment", "uneven": "unevenness",
    "last_of_matched": "share of the last segment among those that match",
}  # fmt: skip


def _of_learnt(evidence: Evidence) -> pd.DataFrame:
    """One row per run that has learnt the task, its measures averaged over the numbers of segments."""
    table = measures(evidence, view(evidence).loc[lambda runs: runs["accuracy"] >= THRESHOLD])
    return table.pivot_table(index=["name", "query", "run"], values=list(WORDS)).reset_index() if len(table) else table


def measure(evidence: Evidence, name: str, query: str, what: str) -> Estimate:
    """A measure of the runs of a model that have learnt the task, averaged over the numbers of segments."""
    learnt(of(evidence, name, query=query), f"{name} ({query})")
    table = evidence.once("duplicates", _of_learnt)
    samples = {tuple(at.values()): list(rows[what]) for at, rows in groups(table, ["name", "query"])}
    if (name, query) not in samples:
        raise NotEnough(f"{name} ({query}) was not tested on duplicate queries")
    return mean_of(samples[name, query], f"{name}, {query}: {WORDS[what]}", pool(samples.values(), bounded=True))


def draw_errors(title: str, models: Models, queries: Sequence[str], evidence: Evidence, caption: str) -> Drawing:
    """Error rate against the number of segments, a panel per model, a line per kind of query."""
    runs = view(evidence)
    runs = runs.loc[runs["name"].isin(at_scale(models, evidence.scale)) & runs["task.query"].isin(queries)]
    table = measures(evidence, runs)
    order = list(settings.TITLES.values())
    table = table.assign(model=[settings.TITLES[name] for name in table["name"]])
    table = table.sort_values("model", key=lambda column: column.map(order.index), kind="stable")
    found = mean_and_range(table, ["model", "query", "segments"], "error")
    drawn = found.assign(**{name: found[name].clip(lower=FLOOR) for name in ("mean", "low", "high")})
    figure = lines_figure(
        drawn, "segments", "query", "model", title=title, xlabel="segments s, each with the query", ylabel="error rate",
        caption=f"{caption} Rates below {FLOOR:g} are drawn there.", logx=False, logy=True, columns=4,
        ylim=(FLOOR / 1.3, 1.3),
    )  # fmt: skip
    return figure, found


def draw_preferences(title: str, models: Models, evidence: Evidence, caption: str) -> Drawing:
    """Preference rates: one row of panels per kind of query and one column per model. Each panel has one row per s and one
    column per segment."""
    runs, names, cells = view(evidence), at_scale(models, evidence.scale), {}
    for query, name in product(QUERIES, names):
        inside = runs.loc[(runs["name"] == name) & (runs["task.query"] == query), "id"]
        if len(slices := rows_of(evidence.slices, inside)):
            cells[query, settings.TITLES[name]] = preference_matrix(slices)
    figure = heatmaps_figure(
        cells, QUERIES, [settings.TITLES[name] for name in names], title=title, caption=caption, xlabel="segment",
        ylabel="segments s", value="preference rate", write=True,
    )  # fmt: skip
    return figure, long_table(cells, ("segments", "segment"), "preference")


def _studies(queries: Sequence[str], references: bool, interleaved: bool, scale: Scale) -> list[Study]:
    """Of models beside the interleaved ones, `tiny` has those that claims compare them with, and no query before the sequence."""
    found, few = [], scale == "tiny" and references and interleaved
    for query in queries[:1] if few else queries:
        task = "suffix-99" if query == "suffix" else "prefix-99"
        if references:
            found += studies(f"{task}-two" if few else task, scale, task, ("RoPE", "M2") if few else settings.FIVE)
        if interleaved:
            found += studies(f"{query}-blocks-99", scale, task, blocks(scale))
    return found


def _error(evidence: Evidence, name: str, query: str = "suffix") -> Estimate:
    return measure(evidence, name, query, "error")


def _interleaved_lowest(query: str, evidence: Evidence) -> Finding:
    lowest = _error(evidence, "HI-M2-1", query)
    return every(("RoPE", "M2", "2S-M2"), lambda name: exceeds(_error(evidence, name, query), lowest))


def _mamba2_misses(evidence: Evidence) -> Finding:
    most = _error(evidence, "M2")
    return every(("RoPE", "HI-M2-1", "2S-M2"), lambda name: exceeds(most, _error(evidence, name), by=MISSES))


@claim("F3-prefix-harder")
def _prefix_harder(evidence: Evidence) -> Finding:
    """The error rate of RoPE, Mamba2 and two-stream is at least {HIGHER} higher with the query before the sequence than after
    it, and that of interleaved 1:1 is not, {LEARNT}"""

    def harder(name: str) -> Finding:
        return exceeds(_error(evidence, name, "prefix"), _error(evidence, name), by=HIGHER)

    return all_of(lambda: every(("RoPE", "M2", "2S-M2"), harder), lambda: not_(harder("HI-M2-1")))


def _all_ratios_low(evidence: Evidence) -> Finding:
    each = product(blocks(evidence.scale), ("RoPE", "M2"))
    return every(each, lambda block, other: exceeds(_error(evidence, other), _error(evidence, block)))


@claim("F3-recency")
def _recency(evidence: Evidence) -> Finding:
    """With the query before the sequence Mamba2 gives the k-gram of the last segment in at least {RECENT} of all its
    predictions, {LEARNT}"""
    # decided by the share of all predictions, as in the paper's heatmap; that of those that match is reported beside it
    matched = measure(evidence, "M2", "prefix", "last_of_matched")
    found = at_least(measure(evidence, "M2", "prefix", "last"), RECENT)
    return Finding(found.holds, {**found.numbers, matched.name: str(matched)}, found.note, found.needs)


@claim("F3-two-stream")
def _two_stream(evidence: Evidence) -> Finding:
    """With the query before the sequence two-stream takes the last segment less often than Mamba2, and more often than in an
    even choice (in 1/s of its matches), {LEARNT}"""
    even = float(np.mean([1 / s for s in settings.SETTINGS[evidence.scale].segments]))
    return all_of(
        lambda: exceeds(measure(evidence, "M2", "prefix", "last"), measure(evidence, "2S-M2", "prefix", "last")),
        lambda: at_least(measure(evidence, "2S-M2", "prefix", "last_of_matched"), even + BIAS),
    )


def _even(models: Models, evidence: Evidence) -> Finding:
    each = product(at_scale(models, evidence.scale), QUERIES)
    return every(each, lambda name, query: at_most(measure(evidence, name, query, "uneven"), EVEN))


_EVENLY = f"choose evenly (half the sum of |share - 1/s| at most {EVEN}), suffix and prefix, {LEARNT}"


def _item(name: str, title: str, shows: str, draw: Draw, trained: Trained, *claims: Claim, paper: str = "") -> Item:
    return Item(name, title, shows, draw, trained, claims, differs("ngram", paper=paper), ("slices",))


FIG5 = _item(
    "fig5", "Duplicate queries: error rates, suffix", "the interleaved hybrid has the lowest error rate",
    partial(draw_errors, "Duplicate queries, suffix", settings.FOUR, ("suffix",)), partial(_studies, ("suffix",), True, False),
    Claim("F3-interleaved-lowest", "The error rate, averaged over s, of interleaved 1:1 Mamba2 is below those of RoPE, Mamba2 "
          f"and two-stream Mamba2, {LEARNT}", partial(_interleaved_lowest, "suffix")),
    Claim("F3-mamba2-misses", f"The error rate of Mamba2, averaged over s, is at least {MISSES} above those of RoPE and both "
          f"Mamba2 hybrids, {LEARNT}", _mamba2_misses),
    paper="The caption says suffix, the text prefix: fig14 has both.",
)  # fmt: skip
FIG14 = _item(
    "fig14", "Duplicate queries: error rates, suffix and prefix", "prefix errors exceed suffix errors except for interleaved",
    partial(draw_errors, "Duplicate queries, suffix and prefix", settings.FOUR, QUERIES), partial(_studies, QUERIES, True, False),
    _prefix_harder,
    Claim("F3-interleaved-lowest-prefix", "With the query before the sequence, interleaved 1:1 has the lowest error rate of the "
          f"four, {LEARNT}", partial(_interleaved_lowest, "prefix")),
)  # fmt: skip
FIG15 = _item(
    "fig15", "Duplicate queries: error rates of interleaved models", "every ratio has fewer errors than RoPE and Mamba2",
    partial(draw_errors, "Duplicate queries, interleaved N:1", blocks, QUERIES), partial(_studies, QUERIES, True, True),
    Claim("F3-all-ratios", "Interleaved models with N = 1 to 4 have lower error rates (suffix) than RoPE and Mamba2, "
          f"{LEARNT}", _all_ratios_low),
)  # fmt: skip
FIG6 = _item(
    "fig6", "Duplicate queries: preferences", "Mamba2 takes the last segment, Transformers and interleaved choose evenly",
    partial(draw_preferences, "Preference rates", settings.FOUR), partial(_studies, QUERIES, True, False),
    _recency, Claim("F3-even", f"RoPE and interleaved 1:1 {_EVENLY}", partial(_even, ("RoPE", "HI-M2-1"))), _two_stream,
)  # fmt: skip
FIG16 = _item(
    "fig16", "Duplicate queries: preferences of interleaved models", "no ratio prefers a place",
    partial(draw_preferences, "Preference rates, interleaved N:1", blocks), partial(_studies, QUERIES, False, True),
    Claim("F3-even-ratios", f"Interleaved models with N = 1 to 4 {_EVENLY}", partial(_even, blocks)),
)  # fmt: skip
