"""Writes window.md, "What widens the window", from the runs kept in docs/reproductions. `python docs/window.py`

Every claim is judged anew from the runs; a question without runs says so. Draw the pictures before:
`recollect reproduce widen2026 --from-runs --to docs/reproductions`.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from recollect.analysis.sensitivity import RANGE
from recollect.figures.looks import written
from recollect.papers import PAPERS
from recollect.papers.item import Item
from recollect.papers.judge import Evidence, Scale, Verdict, judge
from recollect.papers.kept import RUNS, kept
from recollect.papers.widen2026 import WAYS
from recollect.papers.widen2026.settings import WIDER
from recollect.papers.widen2026.widths import best_rates
from recollect.train.spec import SEMANTICS

DOCS = Path(__file__).parent
PAGE, KEPT = DOCS / "window.md", DOCS / "reproductions"
FROM: tuple[Scale, ...] = ("medium", "tiny")
"""The scales that have runs, the one that decides first."""
QUESTIONS = {
    "widen2026/optimisers": "Does another optimiser widen it?",
    "widen2026/groups": "Do slower rates for Mamba's decay, skip and step size widen it?",
    "okpekpe2025/readings": "Do Mamba's initial step size or its block widen it?",
    "okpekpe2025/filler": "Does the filler of the task widen it?",
    "widen2026/clipping": "Do clipping or less weight decay widen it, and do runs that solved the task fall back?",
    "widen2026/factors": "Do warm-up, batch size or the schedule widen it?",
    "widen2026/lengths": "Does longer training widen it, and does the lower edge follow rate x steps = constant?",
    "okpekpe2025/decay": "Do mixers whose mixing matrix decays more slowly have wider windows?",
    "widen2026/widths": "Does muP keep the best rate where it is as a model grows wider?",
}
"""By paper and item."""
SLOWER = ("slower-adamw", "slower-muon")
MOST = 3
"""How many of the claims that wait for runs are written out."""
PARTLY = {
    "okpekpe2025/decay": "Only Mamba, Mamba-2 and DeltaNet are measured, not every mixer of the atlas.",
}
"""What an item leaves of its question."""
INTRODUCTION = f"""# What widens the window

A *window* is the range of learning rates over which a model recalls at least 95% ([what it means](results.md)). Okpekpe &
Orvieto find that recurrent models recall only in a narrow one. They leave open why, and what widens it. On this page "wider"
means wider by at least {WIDER} decades.
"""
SETTINGS = """## How it was measured

- `medium`: MQAR with 64 tokens, 4 pairs, 8,192 words and blank filler, 2 layers of width 64, 25 epochs over 100,000 rows in
  batches of 512, 10 rates from 3.2e-5 to 1, 3 seeds, AdamW with weight decay 0.1 and no clipping, cosine decay after a warm-up
  over a tenth of the run.
- `tiny`: 16 tokens, 4 pairs and 32 words, width 32, 2,000 steps of 32 rows, 7 rates from 1e-4 to 1e-1, 2 seeds. A claim that
  fails there was *not seen at this scale*; it is not refuted.

The runs of an item differ only in what the item changes. Windows in the tables are means of the seeds' windows, with 90%
intervals. "Or more" means that the window of a seed continues beyond the rates tried, so it may be wider than the interval
says. "Best checkpoints" is the window with each run taken at its best measurement instead of its end. Sensitivity is the accuracy
lost on average at a rate drawn from {low:g} to {high:g}, compared with the best one.

All numbers are from the runs in [reproductions](reproductions/README.md), judged by code. `python docs/window.py` writes this
page from them.
"""


@dataclass(frozen=True)
class Part:
    """What is known of one question."""

    name: str
    item: Item
    scale: Scale
    evidence: Evidence | None
    """None: no runs."""
    verdicts: list[Verdict]

    @property
    def picture(self) -> Path:
        """Where its picture is, if it was drawn."""
        paper, _, item = self.name.partition("/")
        return KEPT / self.scale / paper / f"{item}.png"


def part(name: str) -> Part:
    """The runs of a question at the first scale that has some, and the verdicts on its claims."""
    paper, _, item_name = name.partition("/")
    item = PAPERS.find(paper).item(item_name)
    for scale in FROM:
        folder = KEPT / scale / paper
        if not all((folder / name).exists() for name in (RUNS, f"{item.name}.csv")):
            continue
        evidence = kept(item, scale, folder)
        if len(evidence.runs) and set(evidence.runs["semantics"]) == {SEMANTICS}:
            return Part(name, item, scale, evidence, [judge(claim, evidence) for claim in item.claims])
    return Part(name, item, FROM[0], None, [])


def counted(verdicts: list[Verdict]) -> str:
    """How many claims hold, do not, are open, and wait for runs."""
    count = Counter(verdict.answer for verdict in verdicts)
    no, missing = count["does not hold"] + count["not seen at this scale"], count["runs are missing"]
    words = "do not" if count["does not hold"] == no else "were not seen to"
    open_ = len(verdicts) - count["holds"] - no - missing
    sentence = f"of {len(verdicts)} claims, {count['holds']} hold, {no} {words}, {open_} are open"
    return sentence + (f", {missing} wait for runs" if missing else "")


def moved(part: Part) -> str:
    """The window of the base and the widest other one, for each panel."""
    item = part.item.name
    if part.evidence is None or not part.name.startswith("widen2026") or item not in WAYS:
        return ""
    ways, sentences = WAYS[item], []
    for panel, rows in ways.windows(part.evidence).groupby("panel", sort=False):
        found = rows.to_dict("records")
        base = next((row for row in found if row["way"] == ways.base), found[0])
        others = [row for row in found if row is not base]
        if others:
            widest = max(others, key=lambda row: row["mean"])
            usual, other = (f"{decades(row)} with {row['way']}" for row in (base, widest))
            sentences.append(f"{written(str(panel))} {usual}, and the widest of the others {other}")
    return f" Windows in decades: {'; '.join(sentences)}." if sentences else ""


def decades(row: dict) -> str:
    """The width of a window."""
    return f"{row['mean']:.2f}{' or more' * bool(row['open'])}"


def answer(parts: list[Part]) -> list[str]:
    """What widens a window, what was found on each question, and what was not trained."""
    tried = [verdict for one in parts for verdict in one.verdicts if verdict.answer != "runs are missing"]
    widen = [verdict for verdict in tried if "widen" in verdict.claim or verdict.claim in SLOWER]
    count = {word: [verdict for verdict in widen if verdict.answer == word] for word in ("holds", "does not hold")}
    lines = ["## The answer", ""]
    if held := [verdict.says for verdict in count["holds"]]:
        lines += [
            f"**Of {len(widen)} changes that were tried, {len(held)} widen a window:**",
            "",
            *(f"- {says}." for says in held),
        ]
    elif widen:
        lines += [f"**None of the {len(widen)} changes that were tried has been shown to widen a window.**"]
    else:
        lines += ["**Nothing has been trained yet.**"]
    no, open_ = len(count["does not hold"]), len(widen) - sum(map(len, count.values()))
    lines += ["", f"Of the others, {no} do not, and {open_} are open or were not seen."] if no + open_ else []
    lines += ["", "By question:", ""]
    for one in parts:
        if one.evidence is not None:
            link = f"[{QUESTIONS[one.name]}](#{anchor(QUESTIONS[one.name])})"
            lines.append(f"- {link} At `{one.scale}`, {counted(one.verdicts)}.{moved(one)}")
    untrained = [QUESTIONS[one.name] for one in parts if one.evidence is None]
    lines += ["", "Not trained yet:", "", *(f"- {question}" for question in untrained)] if untrained else []
    return [*lines, ""]


def anchor(heading: str) -> str:
    """The name that a heading can be linked by."""
    kept_letters = "".join(letter for letter in heading.lower() if letter.isalnum() or letter in " -=")
    return "-".join(kept_letters.replace("=", " ").split())


def windows_table(part: Part) -> list[str]:
    """The windows of every way."""
    assert part.evidence is not None
    rows = WAYS[part.item.name].windows(part.evidence).to_dict("records")
    columns = ["model", "trained", "window, decades", "interval", "best checkpoints", "best rate", "accuracy there"]
    columns += ["sensitivity", "seeds"]
    lines = [f"| {' | '.join(columns)} |", f"|---|---|{'--:|' * (len(columns) - 2)}"]
    for row in rows:
        interval = f"{row['low']:.2f} to {row['high']:.2f}" if row["seeds"] > 1 else "-"
        cells = (written(str(row["panel"])), row["way"], decades(row), interval, f"{row['checkpoints']:.2f}",
                 f"{row['rate']:.2g}", f"{row['accuracy']:.3f}", f"{row['sensitivity']:.2f}", row["seeds"])  # fmt: skip
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return [*lines, ""]


def rates_table(part: Part) -> list[str]:
    """The best rate at every width."""
    assert part.evidence is not None
    lines = ["| model | parametrisation | width | best rate | 95 % interval | seeds |", "|---|---|--:|--:|--:|--:|"]
    for row in best_rates(part.evidence.runs).to_dict("records"):
        interval = f"{10 ** row['low']:.1e} to {10 ** row['high']:.1e}" if row["count"] > 1 else "-"
        cells = (written(row["model"]), row["model.parametrisation"], row["model.width"], f"{10 ** row['mean']:.1e}", interval,
                 row["count"])  # fmt: skip
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return [*lines, ""]


def section(part: Part) -> list[str]:
    """One question: the answer, the picture, the numbers, the command."""
    lines = [f"## {QUESTIONS[part.name]}", ""]
    if note := PARTLY.get(part.name):
        lines += [note, ""]
    if part.evidence is None:
        lines += ["The repository has no runs of this: it has not been trained. To train it:", ""]
    else:
        there, asked = len(part.evidence.runs), part.evidence.asked
        runs = f"all {asked} runs" if there >= asked else f"{there} of {asked} runs; the others have not been trained"
        sentence, in_table = counted(part.verdicts), part.name.startswith("widen2026") and part.item.name in WAYS
        lines += [f"{sentence[0].upper()}{sentence[1:]} (`{part.scale}`, {runs}).", ""]
        for verdict in part.verdicts:
            if verdict.answer == "runs are missing":
                continue
            shown = {
                name: text for name, text in verdict.numbers.items() if not (in_table and name.endswith("decades"))
            }
            numbers = "; ".join(f"{name}: {text}" for name, text in shown.items())
            details = "; ".join(filter(None, (numbers, verdict.note)))
            lines.append(f"- *{verdict.answer}*: {verdict.says}{f' ({details})' if details else ''}.")
        lines.append("")
        if waiting := [verdict.says for verdict in part.verdicts if verdict.answer == "runs are missing"]:
            shown = [f"- {says}." for says in waiting[:MOST]] + ["- ..."] * (len(waiting) > MOST)
            lines += ["These wait for runs:", "", *shown, ""]
        if part.picture.exists():
            lines += [f"![{part.item.title}]({part.picture.relative_to(DOCS).as_posix()})", ""]
        lines += windows_table(part) if in_table else rates_table(part) if part.item.name == "widths" else []
    return [*lines, "```sh", f"recollect reproduce {part.name} --scale {part.scale}", "```", ""]


def page() -> str:
    """The whole page."""
    parts = [part(name) for name in QUESTIONS]
    lines = [*answer(parts), *(line for one in parts for line in section(one))]
    return "\n".join([INTRODUCTION, *lines, SETTINGS.format(low=RANGE[0], high=RANGE[1])])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
