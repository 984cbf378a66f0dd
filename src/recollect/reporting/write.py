"""Writes the page: one HTML file with its data, its style, its script, and Plotly's from the installed package."""

import base64
import gzip
import html
import json
import shlex
import time
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from plotly.offline import get_plotlyjs

import recollect
from recollect.reporting.charts import chart_data, page_views
from recollect.reporting.content import Content
from recollect.reporting.controls import controls, run_heads
from recollect.reporting.reproduction import read_reproduction, studies_of
from recollect.reporting.sections import configurations_section, question, reproduction_section, study_section
from recollect.spec import SpecError
from recollect.spec.output import written_whole
from recollect.store.store import Store, StoreError
from recollect.views.fields import plain

_SCRIPTS = ("data.js", "chart.js", "page.js")


def report(
    store: Store | str | Path,
    studies: Sequence[str] = (),
    to: str | Path = "report.html",
    reproduction: str | Path | None = None,
) -> Path:
    """Write a report of these studies of a store, or of all of them where none is named, and return its path.

    `reproduction`: a folder that `recollect reproduce` wrote, whose verdicts and pictures come first; without names the
    report is then of that paper's studies.
    """
    store, to = store if isinstance(store, Store) else Store(store), Path(to)
    if to.suffix not in ("", ".html", ".htm"):
        raise SpecError(f"cannot write {to.name!r}: a report is an .html file")
    folder = Path(reproduction) if reproduction is not None else None
    found = read_reproduction(folder) if folder else None
    known = store.studies()
    names = _chosen(store, list(known), studies, studies_of(found, list(known)) if found else list(known))
    title = found["title"] if found else names[0] if len(names) == 1 else f"{len(names)} studies of {store.path.name}"
    content = Content(store, names)
    rows = content.configurations()
    made = f"From {store.path}, by recollect {recollect.__version__} on {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}."
    views = page_views(content.frames, content.curves_note)
    data = {
        "runs": content.runs(), "curves": content.curves(), "tags": content.tags(), "views": [about for about, _ in views],
        **chart_data(content.frames, rows),
    }  # fmt: skip
    data["names"] = {name: plain(name) for name in (*data["runs"], *content.frames.curves)}
    several, described = len(names) > 1, [content.study(name) for name in names]
    page = _page(
        title=html.escape(title), made=html.escape(made), data=_packed(data),
        before=reproduction_section(found) if found else "",
        controls=controls(views, names), heads=run_heads(data["runs"], several), empty="" if views else " hidden",
        configurations=configurations_section(rows, content.frames.threshold, several),
        head="" if several else question(described[0]),
        studies="".join(study_section(study, not several) for study in described),
        command=html.escape(_command(store, studies, to, folder)),
    )  # fmt: skip
    with written_whole(to) as draft:
        draft.write_text(page, encoding="utf-8")
    return to


def _chosen(store: Store, known: list[str], asked: Sequence[str], otherwise: list[str]) -> list[str]:
    for name in asked:
        store.study_source(name)  # refuses a name that the store does not know
    if not (names := list(dict.fromkeys(asked)) or otherwise):
        raise StoreError(f"{store.path} has no study to report: {', '.join(known) or 'it is empty'}")
    return names


def _command(store: Store, studies: Sequence[str], to: Path, folder: Path | None) -> str:
    extra = ["--reproduction", str(folder)] if folder else []
    return shlex.join(["recollect", "report", *studies, *extra, "--store", str(store.path), "--to", str(to)])


def _page(**parts: str) -> str:
    def file(name: str) -> str:
        return resources.files("recollect.reporting").joinpath("page", name).read_text(encoding="utf-8")

    script = '"use strict";\n' + "\n".join(file(name) for name in _SCRIPTS)
    return Template(file("page.html")).substitute(style=file("page.css"), script=script, plotly=get_plotlyjs(), **parts)


def _packed(data: dict[str, Any]) -> str:
    """JSON, compressed, as letters and digits: no text in it can end the element that it stands in."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()
