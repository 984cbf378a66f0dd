"""The parts of a page that do not move, as HTML. Everything that comes from a store goes through `escape`."""

import json
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from recollect.spec import finite

SIGNS = {
    "holds": ("good", "✓"), "does not hold": ("bad", "✗"),
    "not seen at this scale": ("open", "○"), "needs more seeds": ("open", "?"), "needs longer training": ("open", "?"),
    "best rate at the edge of the grid": ("open", "?"), "runs are missing": ("open", "?"),
}  # fmt: skip


def short(value: Any) -> str:
    """A value in readable form; not yet escaped."""
    if value is None or value != value or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float) or (value.is_integer() and abs(value) < 1e5):
        return str(int(value)) if isinstance(value, float) else str(value)
    return f"{value:.2e}" if abs(value) < 1e-3 or abs(value) >= 1e5 else f"{value:.4g}"


def span(low: Any, high: Any, form: str) -> str:
    """A range, or nothing where there is none or it has no width that shows."""
    if low is None or high is None or format(low, form) == format(high, form):
        return ""
    return f"{low:{form}} – {high:{form}}"


def table(
    heads: Sequence[tuple[str, str]],
    rows: Iterable[Sequence[tuple[str, Any]]],
    attributes: Iterable[str] = (),
    name: str = "",
) -> str:
    """A table that sorts by a click on a heading: `heads` are titles and their explanations, a cell is its HTML and the value it
    sorts by. Columns in which every cell is empty are left out; `attributes` are those of the rows."""
    rows = [list(row) for row in rows]
    shown = [k for k in range(len(heads)) if not rows or any(row[k][0] not in ("", "–") for row in rows)]

    number = [bool(rows) and all(isinstance(row[k][1], int | float | None) for row in rows) for k in range(len(heads))]
    kind = [" class=number" if each else "" for each in number]
    top = "".join(heading(heads[k][0], kind[k], heads[k][1]) for k in shown)
    given = [*attributes] or [""] * len(rows)
    body = "".join(
        f"<tr {about}>" + "".join(
            f'<td{kind[k]} data-value="{escape(json.dumps(finite(row[k][1])))}">{row[k][0]}</td>'
            for k in shown
        ) + "</tr>" for row, about in zip(rows, given, strict=True)
    )  # fmt: skip
    label = f' aria-label="{escape(name)}"' if name else ""
    rows_html = f'<table class="sortable"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll" tabindex="0" role="region"{label}>{rows_html}</div>'


def heading(title: str, attributes: str = "", about: str = "") -> str:
    """The head of a column that a click sorts by; the attributes are HTML."""
    button = f'<button type="button" title="{escape(about)}">{escape(title)}</button>'
    return f'<th scope="col" aria-sort="none"{attributes}>{button}</th>'


def cell(value: Any, shown: str | None = None) -> tuple[str, Any]:
    """A cell of a table: the value as text, and what it sorts by."""
    return escape(short(value) if shown is None else shown), None if value != value else value


def part(title: str, content: str, opened: bool = False) -> str:
    """A part that folds away; the content is HTML."""
    return f'<details class="part"{" open" if opened else ""}><summary>{escape(title)}</summary>{content}</details>'


def terms(pairs: Iterable[tuple[str, str]]) -> str:
    """Pairs of text as a list of terms."""
    return "<dl>" + "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in pairs) + "</dl>"


def pills(counts: Iterable[tuple[int, str]]) -> str:
    """Counts, those of something bad in red."""
    bad = ("diverged", "failed")
    return '<ul class="pills">' + "".join(
        f'<li{" class=bad" if what in bad else ""}>{count} {escape(what)}</li>' for count, what in counts if count
    ) + "</ul>"  # fmt: skip


def verdict(answer: str) -> str:
    """An answer with its sign."""
    kind, sign = SIGNS.get(answer, ("open", ""))
    return f'<span class="verdict {kind}">{sign} {escape(answer)}</span>'
