"""Figures 4b, 4c and 12: sequences longer than those trained on; and whether the residual sums of the released code matter."""

from collections.abc import Callable

import pandas as pd

from recollect.analysis.efficiency import data_efficiency
from recollect.analysis.window import THRESHOLD
from recollect.figures.panels import lines_figure, summary
from recollect.figures.tables import table_figure
from recollect.papers.examples import ratio_of, timed
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
    where,
    within,
)
from recollect.papers.retrievit2026.settings import (
    FIVE,
    SETTINGS,
    SSMS,
    TITLES,
    TaskName,
    blocks,
    differs,
    learnt,
    of,
    studies,
    study,
    view,
)
from recollect.study.spec import Study

NEAR_PERFECT, FAILS, ALIKE, BOOST = 0.9, 0.5, 0.15, 0.1
"""Accuracies: near-perfect generalisation; failure; how far apart is alike; what is a boost."""
FACTOR = 2.0
"""Examples that differ by less than this factor are no change."""
HYBRIDS = ("HI-M2-1", "2S-M2")
TRAINED = f"after training to at least {THRESHOLD} at the trained length"


def length_column(scale: Scale, length: int) -> str:
    """The column of a table of runs that has the accuracy at a length."""
    place = SETTINGS[scale].lengths.index(length)
    return f"final.tests.{place - 1}.accuracy" if place else "accuracy"


def accuracy_at(evidence: Evidence, name: str, query: str, times_longer: float, **values: str) -> Estimate:
    """Accuracy at a multiple of the trained length, of a model that has learnt the task."""
    lengths = SETTINGS[evidence.scale].lengths
    rows = learnt(of(evidence, name, query=query, **values), f"{name} ({query})")
    length = min(lengths, key=lambda tried: abs(tried - times_longer * lengths[0]))
    column = length_column(evidence.scale, length)
    if column not in rows:
        raise NotEnough(f"no test at length {length}")
    return spread(rows[column], f"{name}, {query}, length {length}")


def lengths_table(evidence: Evidence, queries: tuple[str, ...]) -> pd.DataFrame:
    """Accuracy by model, query and length."""
    runs = view(evidence)
    rows = []
    for length in SETTINGS[evidence.scale].lengths if len(runs) else ():
        column = length_column(evidence.scale, length)
        for run in runs.loc[runs["task.query"].isin(queries)].to_dict("records"):
            if column in run:
                rows.append(
                    {
                        "query": run["task.query"],
                        "model": TITLES[run["name"]],
                        "length": length,
                        "accuracy": run[column],
                    }
                )
    frame = pd.DataFrame(rows, columns=["query", "model", "length", "accuracy"])
    return summary(frame.dropna(subset="accuracy"), ["query", "model", "length"])


def draw(title: str, *queries: str) -> Callable[[Evidence, str], Drawing]:
    """Accuracy against test length, a line per model, a panel per kind of query."""

    def drawing(evidence: Evidence, caption: str) -> Drawing:
        table = lengths_table(evidence, queries)
        mark = SETTINGS[evidence.scale].lengths[0]
        figure = lines_figure(
            table, "length", "model", "query", title=title, caption=f"{caption} Dashed: the longest trained length.",
            xlabel="length of the test sequences", logx=False, marks=(mark,), columns=2,
        )  # fmt: skip
        return figure, table

    return drawing


def _studies(
    part: str, tasks: tuple[TaskName, ...], models: Callable[[Scale], tuple[str, ...]]
) -> Callable[[Scale], list[Study]]:
    def made(scale: Scale) -> list[Study]:
        each = (studies(f"{task.partition('-')[0]}{part}-99", scale, task, models(scale)) for task in tasks)
        return [study for some in each for study in some]

    return made


def _five(scale: Scale) -> tuple[str, ...]:
    return FIVE


def _hybrids_extrapolate(query: str) -> Callable[[Evidence], Finding]:
    return lambda evidence: all_of(*(at_least(accuracy_at(evidence, name, query, 4), NEAR_PERFECT) for name in HYBRIDS))


def _rope_fails(evidence: Evidence) -> Finding:
    return at_most(accuracy_at(evidence, "RoPE", "suffix", 4), FAILS)


def _hybrids_beat_both(evidence: Evidence) -> Finding:
    at = {name: accuracy_at(evidence, name, "suffix", 4) for name in (*HYBRIDS, "RoPE", "M2")}
    return all_of(*(exceeds(at[name], at[other]) for name in HYBRIDS for other in ("RoPE", "M2")))


def _nope_like_mamba2(evidence: Evidence) -> Finding:
    return all_of(
        *(
            within(accuracy_at(evidence, "NoPE", "suffix", n), accuracy_at(evidence, "M2", "suffix", n), ALIKE)
            for n in (2, 4)
        )
    )


def _prefix_helps_mamba2(evidence: Evidence) -> Finding:
    prefix, suffix = (accuracy_at(evidence, "M2", query, 4) for query in ("prefix", "suffix"))
    return exceeds(prefix, suffix, by=BOOST)


def _fewer_attention_layers(evidence: Evidence) -> Finding:
    def beats(few: str, many: str) -> Finding:
        return exceeds(accuracy_at(evidence, few, "suffix", 4), accuracy_at(evidence, many, "suffix", 4))

    return all_of(*(beats(f"HI-{name}-4", f"HI-{name}-1") for name in SSMS[evidence.scale]))


def _residual_ratio(evidence: Evidence, name: str) -> Estimate:
    """Examples with the released residual sums over those with clean ones."""
    runs = where(timed(evidence.curves, view(evidence)), name=name)
    released, clean = (where(runs, residual=residual) for residual in ("released", "clean"))
    return ratio_of(released, clean, f"{name}: examples, released / clean")


def _same_examples(evidence: Evidence) -> Finding:
    ratios = [_residual_ratio(evidence, name) for name in HYBRIDS]
    return all_of(*(finding for r in ratios for finding in (at_least(r, 1 / FACTOR), at_most(r, FACTOR))))


def _same_extrapolation(evidence: Evidence) -> Finding:
    found = []
    for name in HYBRIDS:
        released, clean = (
            accuracy_at(evidence, name, "suffix", 4, residual=residual) for residual in ("released", "clean")
        )
        labelled = Estimate(f"{name}, released", released.value, released.low, released.high, released.seeds)
        found.append(within(labelled, clean, BOOST))
    return all_of(*found)


def residual_studies(scale: Scale) -> list[Study]:
    """The two hybrids with clean and with released residual sums; RoPE, which has none to choose, beside them."""
    return [
        study("residual-clean", scale, "suffix-99", ("RoPE", *HYBRIDS)),
        study("residual-released", scale, "suffix-99", HYBRIDS, residual="released"),
    ]


def draw_residual(evidence: Evidence, caption: str) -> Drawing:
    """Examples and extrapolation of each hybrid, clean and released."""
    examples = f"examples to {THRESHOLD}"
    columns = ["model", "residual sums", examples, "low", "high", "accuracy", "accuracy at 4 x length"]
    rows, runs = [], view(evidence)
    if len(runs) and len(evidence.curves):
        longest = length_column(evidence.scale, SETTINGS[evidence.scale].lengths[-1])
        table = data_efficiency(timed(evidence.curves, runs), ["name", "model.residual"])
        for row in table.to_dict("records"):
            inside = where(runs, name=row["name"], residual=row["model.residual"])
            far = inside[longest].mean() if longest in inside else float("nan")
            rows.append(
                (
                    TITLES[row["name"]],
                    row["model.residual"],
                    row["median"],
                    row["low"],
                    row["high"],
                    inside["accuracy"].mean(),
                    far,
                )
            )
    frame = pd.DataFrame(rows, columns=columns)
    return table_figure(frame, "Control: clean and released residual sums", caption), frame


FIG4B = Item(
    "fig4b",
    "Length extrapolation, suffix",
    "hybrids extrapolate, RoPE does not; NoPE behaves like Mamba2",
    draw("Figure 4b: extrapolation, query after the sequence", "suffix"),
    _studies("", ("suffix-99",), _five),
    (
        Claim(
            "F2-hybrids",
            f"Both Mamba2 hybrids have at least {NEAR_PERFECT} at 4 times the trained length, {TRAINED}",
            _hybrids_extrapolate("suffix"),
        ),
        Claim("F2-rope-fails", f"RoPE has at most {FAILS} at 4 times the trained length, {TRAINED}", _rope_fails),
        Claim(
            "F2-hybrids-best",
            f"At 4 times the trained length both hybrids exceed RoPE and Mamba2, {TRAINED}",
            _hybrids_beat_both,
        ),
        Claim(
            "F2-nope",
            f"NoPE and Mamba2 differ by at most {ALIKE} at 2 and 4 times the trained length, {TRAINED}",
            _nope_like_mamba2,
        ),
    ),
    differs(tiny="Lengths up to 48.", small="Lengths up to 200."),
)
FIG4C = Item(
    "fig4c",
    "Length extrapolation, prefix",
    "with the query first, Mamba2 extrapolates better",
    draw("Figure 4c: extrapolation, query before the sequence", "prefix"),
    _studies("", ("prefix-99", "suffix-99"), _five),
    (
        Claim(
            "F2-hybrids-prefix",
            f"Both Mamba2 hybrids have at least {NEAR_PERFECT} at 4 times the trained length, {TRAINED}",
            _hybrids_extrapolate("prefix"),
        ),
        Claim(
            "F2-prefix-helps",
            f"At 4 times the trained length Mamba2 has at least {BOOST} more with the query before the sequence "
            f"than after it, {TRAINED}",
            _prefix_helps_mamba2,
        ),
    ),
    differs(tiny="Lengths up to 48.", small="Lengths up to 200."),
)
FIG12 = Item(
    "fig12",
    "Length extrapolation of interleaved models",
    "fewer Transformer layers extrapolate further",
    draw("Figure 12: extrapolation, interleaved N:1", "suffix", "prefix"),
    _studies("-blocks", ("suffix-99", "prefix-99"), blocks),
    (
        Claim(
            "fewer-attention-layers",
            f"With the query after the sequence, interleaved 4:1 exceeds 1:1 at 4 times the trained length, {TRAINED}",
            _fewer_attention_layers,
        ),
    ),
    differs(tiny="Lengths up to 48.", small="Lengths up to 200."),
)
RESIDUAL = Item(
    "residual",
    "Control: residual sums",
    "what the residual sums of the released code change in findings 1 and 2",
    draw_residual,
    residual_studies,
    (
        Claim(
            "F1-residual",
            f"Released residual sums change the examples that a hybrid needs by less than a factor {FACTOR:g}",
            _same_examples,
        ),
        Claim(
            "F2-residual",
            f"They change accuracy at 4 times the trained length by at most {BOOST}, {TRAINED}",
            _same_extrapolation,
        ),
    ),
    differs(paper="The printed formulas are the clean sums; the released code has others."),
    ("curves",),
)
