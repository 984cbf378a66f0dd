"""Writes reference.md: every command and every field, from the code itself. `python docs/reference.py`"""

import inspect
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import typer
from pydantic_core import PydanticUndefined

from recollect.cli import app
from recollect.mixers import MIXERS
from recollect.mixers.spec import CONTEXT
from recollect.models.spec import BlockSpec, ModelSpec, SecondStream
from recollect.sources import PROTOCOLS, preset_names
from recollect.spec import Spec
from recollect.study.search.window import WindowSearch
from recollect.study.spec import Study
from recollect.tasks import TASKS
from recollect.train.optimisers import OPTIMISERS
from recollect.train.schedules import SCHEDULES
from recollect.train.spec import TrainSpec

PAGE = Path(__file__).with_name("reference.md")
INTRODUCTION = """The [commands](#commands), then the fields of [a study file](#a-study-file): [train](#train) with
[optimisers](#optimisers) and [schedules](#schedules), [model](#model) with [mixers](#mixers), and [tasks](#tasks).
`python docs/reference.py` writes this page from the code."""


def reference() -> str:
    """The whole page."""
    lines = ["# Every command and every field", "", INTRODUCTION, ""]
    commands = dict(_commands(typer.main.get_command(app)))
    shared = _shared(commands.values())
    lines += ["## Commands", ""]
    for name, command in commands.items():
        own = [p for p in command.params if p.name not in shared or not _trains(command)]
        lines += [f"### {name}", "", inspect.cleandoc(command.help or ""), "", *_options(own)]
        lines += ["It also takes the [options of training](#options-of-training).", ""] if _trains(command) else []
    lines += ["### Options of training", "", *_options(list(shared.values()))]
    lines += ["## A study file", "", *_fields(Study), "### search", "", *_fields(WindowSearch)]
    lines += [
        "## train",
        "",
        *_fields(TrainSpec),
        "Protocols, as `protocol: name`; what a study gives itself comes first:",
        "",
    ]
    lines += [
        *(f"- `{name}`: {_line(make.__doc__)}" for name, make in ((name, PROTOCOLS.find(name)) for name in PROTOCOLS)),
        "",
    ]
    for title, registry in (("Optimisers", OPTIMISERS), ("Schedules", SCHEDULES)):
        lines += [f"## {title}", "", "Their fields stand beside the others of `train`.", ""]
        for kind in registry:
            cls = registry.find(kind)
            lines += [f"### {kind}", "", _line(cls.__doc__), "", *_fields(cls)]
    lines += ["## model", "", *_fields(ModelSpec), "### blocks", "", *_fields(BlockSpec)]
    lines += ["### second", "", *_fields(SecondStream)]
    presets = ", ".join(f"`{name}`" for name in preset_names())
    lines += [f"Presets, as `preset: name`: {presets}.", "", "## Mixers", ""]
    for kind in MIXERS:
        lines += _mixer(kind)
    lines += ["## Tasks", ""]
    for kind in TASKS:
        task = TASKS.find(kind)
        lines += [f"### {kind}", "", _line(task.__doc__), "", *_fields(task, without=("kind",))]
    return "\n".join(lines).rstrip() + "\n"


def _commands(group: Any, before: str = "recollect") -> Iterator[tuple[str, Any]]:
    """Every command that does something, by its full name."""
    for name, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from _commands(command, f"{before} {name}")
        else:
            yield f"{before} {name}", command


def _trains(command: Any) -> bool:
    return any(p.name == "stop_after" for p in command.params)


def _shared(commands: Iterable[Any]) -> dict[str, Any]:
    """The options that every command which trains has, by name."""
    training = [{p.name: p for p in command.params if p.name != "help"} for command in commands if _trains(command)]
    return {name: p for name, p in training[0].items() if all(name in params for params in training)}


def _options(params: list[Any]) -> list[str]:
    """A table of arguments and options."""
    rows = []
    for p in params:
        if p.name == "help":
            continue
        argument = p.param_type_name == "argument"
        shown = p.metavar or p.name.upper() if argument else " ".join(filter(None, [", ".join(p.opts), p.metavar]))
        default = None if p.required or p.default is False else p.default  # a flag that is not given
        rows.append([f"`{shown}`", _default(default), _line(getattr(p, "help", ""))])
    return _table(["option", "default", "meaning"], rows)


def _fields(spec: type[Spec], without: tuple[str, ...] = ()) -> list[str]:
    rows = []
    for name, field in spec.model_fields.items():
        if name not in without:
            made = field.default_factory() if field.default_factory else field.default  # pyright: ignore
            rows.append([f"`{name}`", _default(None if made is PydanticUndefined else made), _line(field.description)])
    return _table(["field", "default", "meaning"], rows) if rows else []


def _mixer(kind: str) -> list[str]:
    cls = MIXERS.find(kind)
    parameters = list(inspect.signature(cls.__init__).parameters.values())[2:]
    defaults = {
        p.name: _default(None if p.default is p.empty else p.default) for p in parameters if p.name not in CONTEXT
    }
    about, rows = list[str](), list[list[str]]()
    for paragraph in inspect.cleandoc(cls.__doc__ or "").split("\n\n"):
        if _option(paragraph.partition("\n")[0], defaults):
            rows += _explained(paragraph, defaults)
        else:
            about += [_line(paragraph), ""]
    rows += [[f"`{name}`", default, ""] for name, default in defaults.items() if not _named(name, rows)]
    return [f"### {kind}", "", *about, *_table(["option", "default", "meaning"], rows)]


def _option(line: str, known: Collection[str]) -> list[str]:
    """The options that a line of a docstring starts to explain, as `kernel, expand: lengths of ..`; none in other lines."""
    names = line.partition(": ")[0].split(", ") if ": " in line else []
    return names if names and all(name in known for name in names) else []


def _explained(paragraph: str, defaults: dict[str, str]) -> list[list[str]]:
    """Rows of the options that a paragraph of a docstring explains; a line that starts no other option goes on with the last."""
    rows = list[list[str]]()
    for line in paragraph.splitlines():
        if names := _option(line, defaults):
            shown = [", ".join(f"`{name}`" for name in names), ", ".join(defaults[name] or "-" for name in names)]
            rows.append([*shown, line.partition(": ")[2]])
        else:
            rows[-1][-1] += f" {line.strip()}"
    return rows


def _named(name: str, rows: list[list[str]]) -> bool:
    return any(f"`{name}`" in row[0] for row in rows)


def _table(heads: list[str], rows: list[list[str]]) -> list[str]:
    if not rows:
        return []
    cells = [heads, ["---"] * len(heads), *rows]
    return [*("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells), ""]


def _default(value: Any) -> str:
    if value is None or value == "":
        return ""
    return f"`{value.model_dump(mode='json') if isinstance(value, Spec) else value}`"


def _line(text: str | None) -> str:
    return " ".join((text or "").split())


if __name__ == "__main__":
    PAGE.write_text(reference())
