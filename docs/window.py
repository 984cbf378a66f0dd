"""Writes window.md, "What widens the window", from the runs kept in docs/reproductions. `python docs/window.py`

Every claim is judged anew from the runs; a question without runs says so. Draw the pictures before:
`recollect reproduce widen2026 --from-runs --to docs/reproductions`.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from recollect.analysis.sensitivity import RANGE
from recollect.analysis.window import THRESHOLD
from recollect.figures.looks import written
from recollect.papers import PAPERS
from recollect.papers.item import Item
from recollect.papers.judge import Answer, Evidence, Scale, Verdict, judge
from recollect.papers.kept import RUNS, kept
from recollect.papers.widen2026 import WAYS
from recollect.papers.widen2026.settings import WIDER, Ways
from recollect.papers.widen2026.widths import best_rates
from recollect.train.spec import SEMANTICS

DOCS = Path(__file__).parent
PAGE, KEPT = DOCS / "window.md", DOCS / "reproductions"
FROM: tuple[Scale, ...] = ("medium", "tiny")
"""The scales that have runs, the one that decides first."""
WORDS: dict[Answer, str] = {
    **{answer: answer for answer in ("holds", "does not hold", "not seen at this scale")},
    "needs longer training": "open: needs longer training",
    "best rate at the edge of the grid": "open: needs rates beyond those tried",
    "needs more seeds": "open: needs more seeds",
    "runs are missing": "waits for runs",
}
"""What the page says of an answer."""


class Question(NamedTuple):
    """A question: the paper and the item that answer it, and the heading."""

    name: str
    asks: str
    change: str = ""
    """What may widen a window; empty: the question is another one."""
    only: tuple[str, ...] = ()
    """The claims of the item that answer it; empty: all."""
    same: bool = False
    """Whether these say that the window stays as it is."""
    partly: str = ""
    """What the item leaves of the question."""


READINGS = ("step-size-bias-zero", "s-own-block-twice-no-mlp", "s-own-block-twice-no-mlp-pytorch-s-initial-maps")
SLOW = "slower rates for Mamba's decay, skip and step size"
QUESTIONS = (
    Question("widen2026/optimisers", "Does another optimiser widen it?", "another optimiser"),
    Question("widen2026/groups", f"Do {SLOW} widen it?", SLOW),
    Question("okpekpe2025/readings", "Do Mamba's initial step size or its block widen it?",
             "Mamba's initial step size or its block", tuple(f"reading-mamba-{name}" for name in READINGS), same=True),
    Question("okpekpe2025/filler", "Does the filler of the task widen it?", "blank filler",
             ("filler-widens-mamba", "filler-leaves-attention")),
    Question("widen2026/clipping", "Do clipping or less weight decay widen it, and do runs that solved the task fall back?",
             "clipping or less weight decay"),
    Question("widen2026/factors", "Do warm-up, batch size or the schedule widen it?", "warm-up, batch size or the schedule"),
    Question("widen2026/lengths", "Does longer training widen it, and does the lower edge follow rate x steps = constant?",
             "longer training"),
    Question("okpekpe2025/decay", "Do mixers whose mixing matrix decays more slowly have wider windows?",
             partly="Only Mamba, Mamba-2 and DeltaNet are measured, not every mixer of the atlas."),
    Question("widen2026/widths", "Does muP keep the best rate where it is as a model grows wider?"),
)  # fmt: skip
INTRODUCTION = f"""# What widens the window

A *window* is the range of learning rates over which a model recalls at least {THRESHOLD:.0%} ([what it means](results.md)), in
decades: 1 is a factor of ten. Okpekpe & Orvieto find that recurrent models recall only in a narrow one. They leave open why, and
what widens it. On this page "wider" means wider by at least {WIDER} decades.
"""
METHOD = """## How it was measured

The runs of a question differ only in what it asks about; the rest is AdamW with weight decay 0.1, no clipping, and cosine decay
after a warm-up over a tenth of the run. `medium` is near the paper's setting and takes a GPU. `tiny` takes two CPU cores; a claim
that fails there was *not seen at this scale*, which refutes nothing.

Windows are means of the seeds' windows, with 90% intervals. "Or more": the window of a seed goes on beyond the rates tried, so
that it may be wider than the interval says. "Best checkpoints": each run is taken at its best measurement instead of its end.
Sensitivity is the accuracy lost on average at a rate drawn from {low:g} to {high:g}, compared with the best one.

Lion is given a tenth of AdamW's rates and SGD a hundred times as much, so that their sensitivity cannot be compared. SGD has no
weight decay. Lion's is AdamW's, so that its parameters, with a tenth of the rate, decay a tenth as fast. Schedule-free AdamW
keeps its rate after warm-up.

`python docs/window.py` writes this page from the runs in [reproductions](reproductions/README.md), which code judges.
"""
ESTIMATE = re.compile(r"(\S+) \((\S+) \.\. (\S+); \d+ seeds?([^)]*)\)")  # the last part says whether it could be higher


@dataclass(frozen=True)
class Part:
    """What is known of one question."""

    question: Question
    item: Item
    scale: Scale
    evidence: Evidence | None
    """None: no runs."""
    verdicts: list[Verdict]

    @property
    def tested(self) -> list[Verdict]:
        """The verdicts on claims that have their runs."""
        return [verdict for verdict in self.verdicts if verdict.answer != "runs are missing"]

    @property
    def runs(self) -> str:
        """How many of its runs there are."""
        there, asked = (len(self.evidence.runs), self.evidence.asked) if self.evidence else (0, 1)
        return f"all {asked} runs" if there >= asked else f"{there} of {asked} runs"

    @property
    def needs(self) -> str:
        """What would decide it."""
        return ", ".join(dict.fromkeys(WORDS[one.answer].removeprefix("open: ") for one in self.tested)) or self.runs

    @property
    def outcome(self) -> str:
        """Whether its change widens a window."""
        if self.evidence is None:
            return "not trained"
        same = self.question.same
        answers = {one.answer for one in self.verdicts if same or widening(one)}
        if "holds" in answers and not same:
            return "widens"
        return "does not" if answers == {"holds" if same else "does not hold"} else "open"


def widening(verdict: Verdict) -> bool:
    """Whether a claim says that a change widens a window."""
    return "widen" in verdict.claim or verdict.claim.startswith("slower-")


def part(question: Question) -> Part:
    """What is known at the first scale at which a claim can be judged, or else at the first that has runs."""
    paper, _, name = question.name.partition("/")
    item, found = PAPERS.find(paper).item(name), []
    for scale in FROM:
        folder = KEPT / scale / paper
        if not all((folder / name).exists() for name in (RUNS, f"{item.name}.csv")):
            continue
        evidence = kept(item, scale, folder)
        if len(evidence.runs) and set(evidence.runs["semantics"]) == {SEMANTICS}:
            found.append(judged(question, item, evidence))
    found.sort(key=lambda one: not one.tested)
    return found[0] if found else Part(question, item, FROM[0], None, [])


def judged(question: Question, item: Item, evidence: Evidence) -> Part:
    """What the runs say of a question."""
    claims = [claim for claim in item.claims if not question.only or claim.name in question.only]
    return Part(question, item, evidence.scale, evidence, [judge(claim, evidence) for claim in claims])


def counted(verdicts: list[Verdict]) -> str:
    """How many claims hold, do not, are open, and wait for runs."""
    words = {"holds": "hold", "does not hold": "do not hold", "was not seen": "were not seen", "is open": "are open",
             "waits for runs": "wait for runs"}  # fmt: skip
    short = [WORDS[verdict.answer].replace("not seen at this scale", "was not seen") for verdict in verdicts]
    count = Counter("is open" if word.startswith("open") else word for word in short)
    numbers = [f"{count[one]} {one if count[one] == 1 else many}" for one, many in words.items() if count[one]]
    return f"Of {len(verdicts)} claims, {', '.join(numbers)}" if verdicts else "Not trained yet"


def readable(text: str, interval: bool = True) -> str:
    """A number of a verdict, rounded: `1.78 (1.26 .. 2.3; 2 seeds; ..)` is `1.78 or more (1.26 to 2.30)`."""
    if not (match := ESTIMATE.match(text)):
        return text
    value, low, high = (f"{float(match[i]):.2f}" for i in (1, 2, 3))
    could_rise = any(words in match[4] for words in ("edge of the grid", "longer training"))
    return f"{value}{' or more' * could_rise}{f' ({low} to {high})' * interval}"


def widened(verdict: Verdict) -> str:
    """A claim that holds, and from what to what it widens the window."""
    numbers = [readable(text, interval=False) for text in verdict.numbers.values()]
    change = f": from {numbers[1].replace('0.00', 'none')} to {numbers[0]}" if len(numbers) == 2 else ""
    return f"- {verdict.says}{change} (`{verdict.scale}`)."


def answer(parts: list[Part]) -> list[str]:
    """What widens a window, what does not, and what is not known."""
    changes = [one for one in parts if one.question.change]
    widen = [one for one in changes if one.outcome == "widens"]
    nothing = "shown to widen a window so far" if any(one.evidence for one in parts) else "trained yet"
    shown = f"Shown so far to widen a window: {' and '.join(one.question.change for one in widen)}."
    head = shown if widen else f"Nothing has been {nothing}."
    held = [verdict for one in widen for verdict in one.verdicts if widening(verdict) and verdict.answer == "holds"]
    lines = ["## The answer", "", f"**{head}**", "", *map(widened, held), *[""] * bool(held)]
    told = {
        "Shown not to widen it": [link(one) for one in changes if one.outcome == "does not"],
        "Tried, and not decided": [
            f"{link(one)} (`{one.scale}`: {one.needs})" for one in changes if one.outcome == "open"
        ],
        "Not trained yet": [link(one) for one in changes if one.outcome == "not trained"],
        "Other questions": [f"{link(one)} {counted(one.verdicts)}." for one in parts if not one.question.change],
    }
    for title, links in told.items():
        lines += [f"{title}:", "", *(f"- {text}" for text in links), ""] if links else []
    return lines


def link(part: Part) -> str:
    """A link to a question's section."""
    heading = "".join(letter for letter in part.question.asks.lower() if letter.isalnum() or letter in " -=")
    return f"[{part.question.change or part.question.asks}](#{'-'.join(heading.replace('=', ' ').split())})"


def table(columns: str, rows: Iterable[Iterable[Any]], left: int) -> list[str]:
    """A table of Markdown, whose first columns have text."""
    names = columns.split(", ")
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * left}{'--:|' * (len(names) - left)}"]
    return [*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows), ""]


def claims_table(part: Part) -> list[str]:
    """What is known of each claim that has its runs."""
    rows = []
    for one in part.tested:
        cells = [f"{name.removesuffix(': decades')}: {readable(text)}" for name, text in one.numbers.items()]
        if one.best_epoch is not None and one.best_epoch != one.answer:
            cells.append(f"by best checkpoints: {WORDS[one.best_epoch]}")
        rows.append((one.says, WORDS[one.answer], "; ".join(cells)))
    return table("claim, so far, measured", rows, 3) if rows else []


def windows_table(ways: Ways, evidence: Evidence) -> list[str]:
    """The windows of every way."""
    rows = [
        (written(str(row["panel"])), row["way"], f"{row['mean']:.2f}{' or more' * bool(row['open'])}",
         f"{row['low']:.2f} to {row['high']:.2f}" if row["seeds"] > 1 else "-", f"{row['checkpoints']:.2f}",
         f"{row['rate']:.2g}", f"{row['accuracy']:.3f}", f"{row['sensitivity']:.2f}".replace("nan", "-"), row["seeds"])
        for row in ways.windows(evidence).to_dict("records")
    ]  # fmt: skip
    columns = "trained, window in decades, interval, best checkpoints, best rate, accuracy there, sensitivity, seeds"
    return table(f"{ways.panel.rpartition('.')[2]}, {columns}", rows, 2)


def rates_table(evidence: Evidence) -> list[str]:
    """The best rate at every width."""
    rows = [
        (written(row["model"]), row["model.parametrisation"], row["model.width"], f"{10 ** row['mean']:.1e}",
         f"{10 ** row['low']:.1e} to {10 ** row['high']:.1e}" if row["count"] > 1 else "-", row["count"])
        for row in best_rates(evidence.runs).to_dict("records")
    ]  # fmt: skip
    return table("model, parametrisation, width, best rate, 95 % interval, seeds", rows, 2)


def setting(evidence: Evidence) -> str:
    """The task, the models and the training of all runs."""
    runs = evidence.runs

    def given(name: str) -> str:
        values = [f"{value:,g}" for value in sorted(runs[name].dropna().astype(float).unique())]
        return " or ".join(values) if len(values) < 3 else f"{values[0]} to {values[-1]}"

    rates, steps = runs["train.lr"].astype(float), given("train.steps")
    length = f"{steps} steps" if steps != "0" else f"{given('train.epochs')} epochs of {given('train.train_rows')} rows"
    return (
        f"MQAR of {given('task.length')} tokens, {given('task.pairs')} pairs and {given('task.vocab')} words; "
        f"{given('model.layers')} layers of width {given('model.width')}; {length} in batches of {given('train.batch')}; "
        f"{rates.nunique()} rates from {rates.min():.2g} to {rates.max():.2g}; {runs['train.seed'].nunique()} seeds."
    )


def section(part: Part) -> list[str]:
    """One question: the answer, the claims, the picture, the numbers, the command."""
    question, item = part.question, part.item
    lines = [f"## {question.asks}", "", *([question.partly, ""] if question.partly else [])]
    if part.evidence is None:
        lines += ["The repository has no runs of this: it has not been trained. To train it:", ""]
    else:
        lines += [f"{counted(part.verdicts)} (`{part.scale}`, {part.runs}).", "", *claims_table(part)]
        folder = (KEPT / part.scale / question.name).parent.relative_to(DOCS)
        picture, verdicts = folder / f"{item.name}.png", folder / "verdicts.md"
        lines += [f"![{item.title}]({picture.as_posix()})", ""] if (DOCS / picture).exists() else []
        if question.name.startswith("widen2026/"):
            ways = WAYS.get(item.name)
            lines += windows_table(ways, part.evidence) if ways else rates_table(part.evidence)
        lines += [f"{setting(part.evidence)} [Every claim and number]({verdicts.as_posix()}).", ""]
    return [*lines, "```sh", f"recollect reproduce {question.name} --scale {part.scale}", "```", ""]


def page() -> str:
    """The whole page."""
    parts = [part(question) for question in QUESTIONS]
    lines = [*answer(parts), *(line for one in parts for line in section(one))]
    return "\n".join([INTRODUCTION, *lines, METHOD.format(low=RANGE[0], high=RANGE[1])])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
