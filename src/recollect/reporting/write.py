"""Writes the page: the data of the studies as JSON, inside one HTML file with its style and its scripts."""

import html
import json
import shlex
import time
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import recollect
from recollect.analysis.window import ZOOLOGY_RATES
from recollect.figures.style import COLOURS
from recollect.reporting.content import study_content
from recollect.reporting.curves import Budget
from recollect.reporting.reproduction import read_reproduction, studies_of
from recollect.spec.output import written_whole
from recollect.store.store import Store, StoreError

_SCRIPTS = ("dom.js", "table.js", "inspect.js", "lines.js", "heatmap.js", "study.js", "page.js")
_ON_DARK = {"#000000": "#FFFFFF"}
"""What takes a colour's place where the page is dark."""


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
    budget = Budget(sum(len(known[name]) for name in names))
    data = {
        "made": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "recollect": recollect.__version__,
        "store": str(store.path), "command": _command(store, studies, to, folder), "zoology_rates": ZOOLOGY_RATES,
        "studies": [study_content(store, name, budget) for name in names], "reproduction": found,
    }  # fmt: skip
    title = found["title"] if found else names[0] if len(names) == 1 else f"{len(names)} studies of {store.path.name}"
    with written_whole(to) as draft:
        draft.write_text(_page(title, data), encoding="utf-8")
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


def _page(title: str, data: dict[str, Any]) -> str:
    def file(name: str) -> str:
        return resources.files("recollect.reporting").joinpath("page", name).read_text(encoding="utf-8")

    dark = [_ON_DARK.get(colour, colour) for colour in COLOURS]
    style = Template(file("page.css")).substitute(palette=_palette(COLOURS), dark_palette=_palette(dark))
    script = '"use strict";\n' + "\n".join(file(name) for name in _SCRIPTS)
    return Template(file("page.html")).substitute(
        title=html.escape(title), style=style, script=script, data=_embedded(data)
    )


def _palette(colours: Sequence[str]) -> str:
    return " ".join(f"--series-{i}: {colour};" for i, colour in enumerate(colours))


def _embedded(data: dict[str, Any]) -> str:
    """JSON that no text in it can end or leave: within a script element only `<` matters, the rest is for good measure."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)  # ASCII only
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
