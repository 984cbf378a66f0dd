"""`recollect list`: everything with a name, in one line each."""

import inspect
import re
from collections.abc import Callable, Iterable
from functools import partial
from pkgutil import resolve_name
from typing import Annotated, Any

from typer import Argument

from recollect.cli.app import app, console
from recollect.cli.options import completes
from recollect.spec import SpecError, nearest

Line = tuple[str, str, str]
"""A name, what it is, its options with their defaults."""


@app.command("list")
def list_names(
    what: Annotated[
        str,
        Argument(
            help="What to list; left out: what can be listed.",
            autocompletion=lambda incomplete: completes(KINDS)(incomplete),
        ),
    ] = "",
) -> None:
    """Mixers, tasks, presets, protocols, optimisers, schedules, papers or views: a line each, with their options."""
    from rich.table import Table
    from rich.text import Text

    if not what:
        console.print("recollect list " + "|".join(KINDS))
        return
    if what not in KINDS:
        raise SpecError(f"cannot list {what!r}: {nearest(what, KINDS)}")
    lines = list(KINDS[what]())
    table = Table(what.removesuffix("s"), "", *["options and defaults"] * any(options for *_, options in lines))
    for name, about, options in lines:
        cells = [Text(name, no_wrap=True), Text(about), Text(options)]
        table.add_row(*cells[: len(table.columns)])
    console.print(table)


def _registered(place: str, options: Callable[[Any], str] = lambda _: "") -> Iterable[Line]:
    """The entries of the registry at `module:NAME`."""
    registry = resolve_name(place)
    for name in registry:
        entry = registry.find(name)
        yield name, _first(entry.__doc__), options(entry)


def _fields(cls: Any) -> str:
    shown = []
    for name, field in cls.model_fields.items():
        if name != "kind":
            required = field.is_required()
            made = None if required else field.get_default(call_default_factory=True)
            shown.append(f"{name} (required)" if required else f"{name}={made}" if made is not None else name)
    return ", ".join(shown)


def _arguments(mixer: Any) -> str:
    from recollect.mixers.spec import CONTEXT

    options = [p for p in list(inspect.signature(mixer.__init__).parameters.values())[2:] if p.name not in CONTEXT]
    return ", ".join(p.name if p.default in (p.empty, None) else f"{p.name}={p.default}" for p in options)


def _presets() -> Iterable[Line]:
    from recollect.sources import SOURCES

    for source in map(SOURCES.find, SOURCES):
        for name, fields in source.presets.items():
            shown = (f"{field}={value}" for field, value in fields.items() if not isinstance(value, dict))
            yield name, "model: {preset: " + name + "}", ", ".join(shown)
        if source.sized:
            yield f"{source.sized}-MIXER-WIDTHxLAYERS", f"such as {source.sized}-mamba-128x2", ""


def _protocol(made: Any) -> str:
    from recollect.tasks import as_task

    return ", ".join(f"{field}={value}" for field, value in made(as_task({"kind": "mqar"})).items())


def _papers() -> Iterable[Line]:
    from recollect.papers import PAPERS

    for name in PAPERS:
        paper = PAPERS.find(name)
        yield name, paper.title, ", ".join(item.name for item in paper.items)


def _first(text: str | None) -> str:
    """The first sentence or line of a docstring."""
    first = " ".join(inspect.cleandoc(text or "").partition("\n\n")[0].split())
    return re.split(r"(?<!et al)\. ", first)[0].rstrip(".")


KINDS: dict[str, Callable[[], Iterable[Line]]] = {
    "mixers": partial(_registered, "recollect.mixers:MIXERS", _arguments),
    "tasks": partial(_registered, "recollect.tasks:TASKS", _fields),
    "presets": _presets,
    "protocols": partial(_registered, "recollect.sources:PROTOCOLS", _protocol),
    "optimisers": partial(_registered, "recollect.train.optimisers:OPTIMISERS", _fields),
    "schedules": partial(_registered, "recollect.train.schedules:SCHEDULES", _fields),
    "papers": _papers,
    "views": partial(_registered, "recollect.views:VIEWS"),
}
