"""Figures 4b, 4c and 12: sequences longer than those trained on; and whether the residual sums of the released code matter."""

from collections.abc import Callable

import pandas as pd

from recollect.analysis.efficiency import data_efficiency
from recollect.analysis.window import THRESHOLD
from recollect.figures.panels import lines_figure, mean_and_range
from recollect.papers.drawing import table
from recollect.papers.examples import examples_needed
from recollect.papers.item import Drawing, Item
from recollect.papers.judge import Evidence, Scale, where
from recollect.papers.retrievit2026 import longer
from recollect.papers.retrievit2026.captions import differs
from recollect.papers.retrievit2026.settings import (
    FIVE,
    SETTINGS,
    TITLES,
    TaskName,
    blocks,
    studies,
    study,
    view,
)
from recollect.study.spec import Study


def lengths_table(evidence: Evidence, queries: tuple[str, ...]) -> pd.DataFrame:
    """Accuracy by model, query and length."""
    runs = view(evidence)
    rows = []
    for length in SETTINGS[evidence.scale].lengths if len(runs) else ():
        column = longer.length_column(evidence.scale, length)
        for run in runs.loc[runs["task.query"].isin(queries)].to_dict("records"):
            if column in run:
                rows.append((run["task.query"], TITLES[run["name"]], length, run[column]))
    frame = pd.DataFrame(rows, columns=["query", "model", "length", "accuracy"])
    return mean_and_range(frame.dropna(subset="accuracy"), ["query", "model", "length"])


def draw(title: str, *queries: str) -> Callable[[Evidence, str], Drawing]:
    """Accuracy against test length, a line per model, a panel per kind of query."""

    def drawing(evidence: Evidence, caption: str) -> Drawing:
        table = lengths_table(evidence, queries)
        mark = SETTINGS[evidence.scale].lengths[0]
        figure = lines_figure(
            table, "length", "model", "query", title=title, caption=f"{caption} Dotted: the longest trained length.",
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


def residual_studies(scale: Scale) -> list[Study]:
    """The two hybrids with clean and with released residual sums; RoPE, which has none to choose, beside them."""
    return [
        study("residual-clean", scale, "suffix-99", ("RoPE", *longer.HYBRIDS)),
        study("residual-released", scale, "suffix-99", longer.HYBRIDS, residual="released"),
    ]


def _by_residual(evidence: Evidence) -> pd.DataFrame:
    """Examples and extrapolation of each hybrid, clean and released."""
    examples = f"examples to {THRESHOLD}"
    columns = ["model", "residual sums", examples, "low", "high", "accuracy", "accuracy at 4 x length"]
    rows, runs = [], view(evidence)
    if len(runs) and len(evidence.curves):
        longest = longer.length_column(evidence.scale, SETTINGS[evidence.scale].lengths[-1])
        found = data_efficiency(examples_needed(evidence.curves, runs), ["name", "model.residual"])
        for row in found.to_dict("records"):
            inside = where(runs, name=row["name"], residual=row["model.residual"])
            far = inside[longest].mean() if longest in inside else float("nan")
            needed = (row["median"], row["low"], row["high"])
            rows.append((TITLES[row["name"]], row["model.residual"], *needed, inside["accuracy"].mean(), far))
    return pd.DataFrame(rows, columns=columns)


_LENGTHS = differs("ngram", tiny="Lengths up to 48.", small="Lengths up to 200.")
FIG4B = Item(
    "fig4b", "Length extrapolation, suffix", "hybrids extrapolate, RoPE does not; NoPE behaves like Mamba2",
    draw("Extrapolation, query after the sequence", "suffix"), _studies("", ("suffix-99",), _five), longer.FIG4B, _LENGTHS,
)  # fmt: skip
FIG4C = Item(
    "fig4c", "Length extrapolation, prefix", "with the query first, Mamba2 extrapolates better",
    draw("Extrapolation, query before the sequence", "prefix"), _studies("", ("prefix-99", "suffix-99"), _five), longer.FIG4C,
    _LENGTHS,
)  # fmt: skip
FIG12 = Item(
    "fig12", "Length extrapolation of interleaved models", "fewer Transformer layers extrapolate further",
    draw("Extrapolation, interleaved N:1", "suffix", "prefix"), _studies("-blocks", ("suffix-99", "prefix-99"), blocks),
    longer.FIG12, _LENGTHS,
)  # fmt: skip
RESIDUAL = Item(
    "residual",
    "Control: residual sums",
    "what the residual sums of the released code change in findings 1 and 2",
    table(_by_residual, "Control: clean and released residual sums"),
    residual_studies,
    longer.RESIDUAL,
    differs("ngram", paper="The printed formulas are the clean sums; the released code has others."),
    ("curves",),
)
