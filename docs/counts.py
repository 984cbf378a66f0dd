"""Writes what the kept verdicts say into README.md and reproductions/README.md, between marks. `python docs/counts.py`

By hand in these pages are only reasons: counts, and what was made by which command, come from verdicts.json and runs.csv.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd

from recollect.papers import PAPERS
from recollect.papers.item import Paper
from recollect.papers.judge import SCALES, Scale, one_per_claim

DOCS = Path(__file__).parent
KEPT = DOCS / "reproductions"
PAGES = (DOCS.parent / "README.md", KEPT / "README.md")
BEGIN, END = "<!-- made by docs/counts.py: {} -->", "<!-- end -->"
DECIDED = ("holds", "does not hold")
COLUMNS = (
    "paper", "scale", "items drawn", "runs kept", "claims", "hold", "do not hold", "not seen", "open", "not judged", "semantics",
    "verdicts",
)  # fmt: skip


def folders() -> list[tuple[Paper, Scale, Path]]:
    """What is kept, the largest scale of each paper first."""
    found = [(PAPERS.find(name), scale, KEPT / scale / name) for name in PAPERS for scale in reversed(SCALES)]
    return [(paper, scale, folder) for paper, scale, folder in found if (folder / "verdicts.json").exists()]


def verdicts(paper: Paper, folder: Path) -> list[dict[str, Any]]:
    """One verdict for each of the paper's claims that was judged."""
    records = json.loads((folder / "verdicts.json").read_text(encoding="utf-8"))
    return [record for record in one_per_claim(records) if record["claim"] in paper.claims]


def version(folder: Path) -> int:
    """The semantics of the runs; those from before runs were kept have version 1."""
    runs = pd.read_csv(folder / "runs.csv", low_memory=False) if (folder / "runs.csv").exists() else pd.DataFrame()
    return int(runs["semantics"].max()) if "semantics" in runs else 1


def table() -> list[str]:
    """A row per paper and scale."""
    lines = [
        f"| {' | '.join(COLUMNS)} |",
        f"|---|---|{'--:|' * (len(COLUMNS) - 3)}---|",
    ]
    for paper, scale, folder in folders():
        count = Counter(record["answer"] for record in verdicts(paper, folder))
        open_ = sum(count.values()) - sum(count[answer] for answer in (*DECIDED, "not seen at this scale"))
        drawn = sum((folder / f"{item.name}.csv").exists() for item in paper.items)
        runs = len(pd.read_csv(folder / "runs.csv", usecols=["id"])) if (folder / "runs.csv").exists() else 0
        cells = (
            paper.name, scale, f"{drawn} of {len(paper.items)}", f"{runs:,}" if runs else "none", len(paper.claims),
            *(count[answer] for answer in (*DECIDED, "not seen at this scale")), open_,
            len(paper.claims) - sum(count.values()), version(folder),
            f"[verdicts]({folder.relative_to(KEPT).as_posix()}/verdicts.md)",
        )  # fmt: skip
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def sentences() -> list[str]:
    """What is decided of each paper, by the current semantics and at scale `small` or above."""
    lines = []
    for name in dict.fromkeys(paper.name for paper, *_ in folders()):
        paper = PAPERS.find(name)
        parts = [(s, folder) for p, s, folder in folders() if p.name == name and s != "tiny" and version(folder) > 1]
        found = one_per_claim(record for _, folder in parts for record in verdicts(paper, folder))
        count = Counter(record["answer"] for record in found)
        scales = " and ".join(f"`{scale}`" for scale, _ in parts)
        yes, no, claims = count["holds"], count["does not hold"], len(paper.claims)
        lines.append(
            f"- `{name}` at {scales}, of {claims} claims: {yes} hold, {no} do not hold, {len(found) - yes - no} open or not "
            f"seen, {claims - len(found)} not judged yet."
            if parts
            else f"- `{name}`: none of its {claims} claims has been judged above `tiny` by the current semantics."
        )
    return lines


def written(page: Path) -> str:
    """A page with the lines between its marks made anew."""
    text = page.read_text(encoding="utf-8")
    for make in (sentences, table):
        begin = BEGIN.format(make.__name__)
        before, found, rest = text.partition(begin)
        if found:
            _, _, after = rest.partition(END)
            text = "\n".join([f"{before}{begin}", "", *make(), "", f"{END}{after}"])
    return text


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(written(page), encoding="utf-8")
