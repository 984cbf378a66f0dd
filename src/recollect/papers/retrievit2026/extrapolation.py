"""Figures 4b, 4c and 12: sequences longer than those trained on; and whether the residual sums of the released code matter."""

from collections.abc import Callable

import pandas as pd

from recollect.analysis.efficiency import data_efficiency
from recollect.analysis.window import THRESHOLD
from recollect.figures.panels import lines_figure, summary
from recollect.figures.tables import table_figure
from recollect.papers.examples import timed
from recollect.papers.item import Drawing, Item
from recollect.papers.judge import Claim, Evidence, Scale, where
from recollect.papers.questions import every
from recollect.papers.retrievit2026.longer import (
    ALIKE,
    BOOST,
    FACTOR,
    FAILS,
    HYBRIDS,
    NEAR_PERFECT,
    TRAINED,
    WORSE,
    better,
    fewer_attention_layers,
    hybrids_beat_both,
    hybrids_extrapolate,
    length_column,
    mamba2_blocks_better,
    nope_like_mamba2,
    prefix_over_suffix,
    rope_fails,
    same_examples,
    same_extrapolation,
)
from recollect.papers.retrievit2026.settings import (
    FIVE,
    SETTINGS,
    TITLES,
    TaskName,
    blocks,
    differs,
    study,
    view,
)
from recollect.study.spec import Study


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
    return lambda scale: [study(f"{task.partition('-')[0]}{part}-99", scale, task, models(scale)) for task in tasks]


def _five(scale: Scale) -> tuple[str, ...]:
    return FIVE


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
            "With the query after the sequence both Mamba2 hybrids have at 4 times the trained length at least "
            f"{NEAR_PERFECT} of their accuracy at that length, {TRAINED}",
            hybrids_extrapolate("suffix"),
        ),
        Claim("F2-rope-fails", f"RoPE has at most {FAILS} at 4 times the trained length, {TRAINED}", rope_fails),
        Claim(
            "F2-hybrids-best",
            f"At 4 times the trained length both hybrids exceed RoPE and Mamba2, {TRAINED}",
            hybrids_beat_both,
        ),
        Claim(
            "F2-nope",
            f"NoPE and Mamba2 differ by at most {ALIKE} at 2 and 4 times the trained length, {TRAINED}",
            nope_like_mamba2,
        ),
        Claim(
            "F2-mamba2-over-rope",
            f"At 4 times the trained length Mamba2 exceeds RoPE, {TRAINED}",
            lambda evidence: better(evidence, "M2", "RoPE"),
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
            "With the query before the sequence both Mamba2 hybrids have at 4 times the trained length at least "
            f"{NEAR_PERFECT} of their accuracy at that length, {TRAINED}",
            hybrids_extrapolate("prefix"),
        ),
        Claim(
            "F2-prefix-helps",
            f"At 4 times the trained length Mamba2 has at least {BOOST} more with the query before the sequence "
            f"than after it, {TRAINED}",
            lambda evidence: prefix_over_suffix(evidence, "M2", BOOST),
        ),
        Claim(
            "F2-prefix-helps-all",
            f"At 4 times the trained length no model is worse by more than {WORSE} with the query before the sequence than "
            f"after it, {TRAINED}",
            lambda evidence: every(FIVE, lambda name: prefix_over_suffix(evidence, name, -WORSE)),
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
            fewer_attention_layers,
        ),
        Claim(
            "mamba2-blocks-better",
            "With the query after the sequence, interleaved models of Mamba2 exceed those of Mamba at 4 times the trained "
            f"length, N = 1 to 4, {TRAINED}",
            mamba2_blocks_better,
        ),
    ),
    differs(tiny="Lengths up to 48.", small="Lengths up to 200."),
)
_SCALES: tuple[Scale, ...] = ("small", "medium", "paper")
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
            same_examples,
            _SCALES,
        ),
        Claim(
            "F2-residual",
            f"Released residual sums change a hybrid's accuracy at 4 times the trained length by at most {BOOST}, {TRAINED}",
            same_extrapolation,
            _SCALES,
        ),
    ),
    differs(paper="The printed formulas are the clean sums; the released code has others."),
    ("curves",),
)
