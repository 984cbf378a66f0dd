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

import numpy as np
from plotly.offline import get_plotlyjs

import recollect
from recollect.analysis.window import ZOOLOGY_RATES
from recollect.figures.looks import WRITTEN
from recollect.reporting.content import Content
from recollect.reporting.reproduction import read_reproduction, studies_of
from recollect.reporting.sections import configurations_section, question, reproduction_section, study_section
from recollect.spec import finite
from recollect.spec.output import written_whole
from recollect.store.store import Store, StoreError
from recollect.views import VIEWS
from recollect.views.base import View
from recollect.views.draw import FEW, MANY
from recollect.views.fields import measures, plain
from recollect.views.parallel import Parallel, axis
from recollect.views.style import DASHES, MARKERS, SCALE, THEMES, colours, layout

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
    folder = Path(reproduction) if reproduction is not None else None
    found = read_reproduction(folder) if folder else None
    known = store.studies()
    names = _chosen(store, list(known), studies, studies_of(found, list(known)) if found else list(known))
    title = found["title"] if found else names[0] if len(names) == 1 else f"{len(names)} studies of {store.path.name}"
    content = Content(store, names)
    rows = content.configurations()
    made = f"From {store.path}, by recollect {recollect.__version__} on {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}."
    data = {
        "studies": names, "runs": content.runs(), "curves": content.curves(), "tags": content.tags(), "configurations": rows,
        "threshold": content.frames.threshold, "views": _views(content), "style": _style(), "zoology": ZOOLOGY_RATES,
    }  # fmt: skip
    data["names"] = {name: plain(name) for name in (*data["runs"], *data["curves"])}
    several, described = len(names) > 1, [content.study(name) for name in names]
    page = _page(
        title=html.escape(title), made=html.escape(made), data=_packed(data),
        before=reproduction_section(found) if found else "",
        configurations=configurations_section(rows, data["threshold"], several),
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


def _views(content: Content) -> list[dict[str, Any]]:
    """What the page has to know of each view that has something to draw."""
    found = []
    for name in VIEWS:
        view = VIEWS.find(name)()
        choices = view.choices(content.frames)
        if not choices:
            continue
        choices = [
            {"name": c.name, "label": c.label, "options": list(c.options.items()), "value": c.default} for c in choices
        ]
        if name == "curves" and "weight" in content.frames.curves:
            choices = _without_single_runs(choices)
        note = f" {content.curves_note}" if name == "curves" else ""
        found.append({
            "name": name, "title": view.title, "kind": view.kind, "source": view.source, "choices": choices,
            "caption": view.caption(content.frames) + note, **_drawn(view, content),
        })  # fmt: skip
    return found


def _without_single_runs(choices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The choices of curves where the page only has those at the best rates, taken together."""
    kept = [choice for choice in choices if choice["name"] not in ("show", "rate")]
    for choice in kept:
        choice["options"] = [pair for pair in choice["options"] if not pair[0].endswith((".low", ".high", "weight"))]
    only = {"show": ["band", "mean and band"], "rate": ["best", "best of each"]}
    return kept + [{"name": name, "label": name, "options": [pair], "value": pair[0]} for name, pair in only.items()]


def _drawn(view: View, content: Content) -> dict[str, Any]:
    """The axes of parallel coordinates, and of a view that the page cannot draw itself its figures."""
    if isinstance(view, Parallel):
        runs, fields = content.frames.runs, list(view.table(content.frames, {"y": "accuracy"}).columns[1:-1])
        axes = {name: axis(runs[name], name, name not in fields) for name in (*fields, *measures(runs))}
        return {"fields": fields, "axes": {name: _plain(about) for name, about in axes.items()}}
    if view.kind != "figure":
        return {}
    first = view.choices(content.frames)[0]
    figures = {
        value: json.loads(str(view.figure(content.frames, **{first.name: value}).to_json())) for value in first.options
    }
    for figure in figures.values():
        figure["layout"].pop("template", None)
    return {"figures": figures}


def _plain(axis: dict[str, Any]) -> dict[str, Any]:
    """An axis with lists of numbers that JSON can hold."""
    return {
        name: value if isinstance(value, str) else [finite(each) for each in np.asarray(value).tolist()]
        for name, value in axis.items()
    }


def _style() -> dict[str, Any]:
    return {
        "themes": THEMES, "colours": {theme: colours(theme) for theme in THEMES},
        "layout": {theme: layout(theme) for theme in THEMES},
        "mixers": list(WRITTEN), "dashes": DASHES, "markers": MARKERS, "scale": SCALE, "many": MANY, "few": FEW,
    }  # fmt: skip


def _page(**parts: str) -> str:
    def file(name: str) -> str:
        return resources.files("recollect.reporting").joinpath("page", name).read_text(encoding="utf-8")

    script = '"use strict";\n' + "\n".join(file(name) for name in _SCRIPTS)
    return Template(file("page.html")).substitute(style=file("page.css"), script=script, plotly=get_plotlyjs(), **parts)


def _packed(data: dict[str, Any]) -> str:
    """JSON, compressed, as letters and digits: no text in it can end the element that it stands in."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()
