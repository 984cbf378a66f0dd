"""Parts of the live page that are made of progress and runs."""

from typing import Any

from dash import html

from recollect.store.progress import ConfigurationProgress
from recollect.store.records import Failure
from recollect.views.fields import measures, number, plain, varying
from recollect.views.frame import Frame

SHORT = {"function": "params.value == null ? '' : d3.format('.5~g')(params.value)"}
"""How the table of runs writes numbers."""
MOST = 200
"""Rows of a list at most."""


def progress_summary(parts: list[ConfigurationProgress], left: float | None) -> html.Ul:
    """How far everything that is chosen is, in a line."""
    runs, ended = sum(part.runs for part in parts), sum(part.ended for part in parts)
    steps, done = sum(part.steps for part in parts), sum(part.steps_done for part in parts)
    training = sum(part.begun for part in parts)
    counts = [(f"{ended} of {runs} runs ended", ""), (f"{training} in training" if training else "", ""),
            (f"{100 * done / steps:.0f} % of the steps" if steps and done < steps else "", ""),
            (f"about {duration(left)} left" if left and ended < runs else "", ""),
            (_count(parts, "diverged"), "bad"), (_count(parts, "failed"), "bad")]  # fmt: skip
    return html.Ul([html.Li(text, className=kind) for text, kind in counts if text], className="pills")


def _count(parts: list[ConfigurationProgress], what: str) -> str:
    count = sum(getattr(part, what) for part in parts)
    return f"{count} {what}" if count else ""


def duration(seconds: float) -> str:
    """Seconds for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def progress_table(parts: list[ConfigurationProgress]) -> Any:
    """A row per configuration: how many of its runs have ended, how far they are, and the best so far."""
    if not parts:
        return html.P("Choose a study.", className="soft")
    several = len({part.study for part in parts}) > 1
    study = ["study"] if several else []
    heads = ["configuration", *study, "runs", "steps", "best accuracy", "at rate", "training", "diverged", "failed"]
    rows = []
    for part in parts[:MOST]:
        share = (part.steps_done / part.steps) if part.steps else part.ended / max(part.runs, 1)
        bar = html.Div([html.Progress(value=str(share), max="1"), html.Span(f"{100 * share:.0f} %")], className="bar")
        best = "–" if part.best_accuracy is None else f"{part.best_accuracy:.3f}"
        rate = "–" if part.best_lr is None else f"{part.best_lr:.3g}"
        counts = [str(count) if count else "" for count in (part.begun, part.diverged, part.failed)]
        named = [part.configuration, part.study] if several else [part.configuration]
        rows.append([*named, f"{part.ended} of {part.runs}", bar, best, rate, *counts])
    body = [html.Tr([html.Td(cell) for cell in row]) for row in rows]
    more = [html.P(f"{len(parts) - MOST} more configurations.", className="soft")] if len(parts) > MOST else []
    return html.Div([html.Table([html.Thead(html.Tr([html.Th(head) for head in heads])), html.Tbody(body)]), *more])


def failure_list(failures: list[tuple[Failure, str | None]]) -> list[Any]:
    """Each failed attempt, the newest first, with its traceback."""
    return [
        html.Details([
            html.Summary(failure.error),
            html.P(f"run {failure.run}, attempt {failure.attempt}, {failure.when}; "
                   + (f"it ended in the end: {ended}" if ended else "it has no result")),
            html.Pre(failure.traceback),
        ], className="part")
        for failure, ended in failures[::-1][:MOST]
    ]  # fmt: skip


def shown_columns(runs: Frame) -> list[str]:
    """The columns of the table of runs."""
    several = ["study"] if runs["study"].nunique() > 1 else []
    first = ("id", *several, "configuration", "accuracy", "train.lr", "train.seed", "status", "step")
    names = dict.fromkeys((*first, *varying(runs), *measures(runs), "state_size", "parameters", "seconds"))
    return [name for name in names if name in runs]


def run_columns(runs: Frame) -> list[dict[str, Any]]:
    """How the table of runs shows its columns: numbers to the right, ids in a fixed width."""
    columns = []
    for name in shown_columns(runs) if len(runs) else []:
        column: dict[str, Any] = {"field": name, "headerName": plain(name), "sortable": True, "resizable": True}
        column |= (
            {"type": "rightAligned", "width": 120, "valueFormatter": SHORT} if number(runs, name) else {"width": 150}
        )
        column |= {"width": 165, "pinned": "left", "cellClass": "mono"} if name == "id" else {}
        column |= {"width": 240} if name == "configuration" else {}
        columns.append(column)
    return columns
