"""A class that a notebook cell or a script defines, as a file of its own: its source, and what it uses of the notebook's globals.

Other processes cannot import a notebook, and its other cells do not belong to the class. So the class is written to a file
together with the imports, constants, functions and classes that it uses, and is found there from then on. The text depends on
these alone: the same cell gives the same file in another session; an edited cell, or another value of a constant, a new file.
"""

import __future__

import ast
import builtins
import hashlib
import math
import os
import sys
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args, get_origin

from recollect.spec.definitions import MAIN, Definition, definition, import_of
from recollect.spec.errors import SpecError
from recollect.spec.imports import reach

CELLS = Path("results/cells")
"""Where the files are kept."""
written: set[Path] = set()
"""The files of what this process has defined, and so executed, itself."""


def write_cell(thing: Any) -> Path:
    """The file of a class or function that a notebook or script defines; written if it does not exist yet."""
    text = cell_text(thing)
    path = CELLS / f"{thing.__qualname__.partition('.')[0]}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.py"
    try:
        if not path.is_file():
            CELLS.mkdir(parents=True, exist_ok=True)
            draft = path.with_suffix(f".{os.getpid()}.draft")
            draft.write_text(text, encoding="utf-8")
            draft.replace(path)
        elif path.read_text(encoding="utf-8") != text:
            raise SpecError(f"{path} has been edited since it was written for {thing.__qualname__}: delete it")
    except OSError as error:
        raise SpecError(f"{thing.__qualname__} cannot be written to {path}: {error}") from None
    written.add(path.resolve())
    return path


def cell_text(thing: Any) -> str:
    """The text of that file: imports, constants, then definitions, each after those that it needs."""
    main, top = vars(sys.modules[thing.__module__]), thing.__qualname__.partition(".")[0]
    parts = _Parts(top, main if "." in thing.__qualname__ else {**main, top: thing})
    parts.add(top)
    head = [f'"""{top}, as a notebook or a script defined it."""']
    if main.get("annotations") is __future__.annotations:
        head.append("from __future__ import annotations")
    head += ["\n".join(sorted(parts.imports)), "\n".join(sorted(parts.constants.values()))]
    return "\n\n".join(filter(None, head)) + "".join(f"\n\n\n{source}" for source in parts.ordered()) + "\n"


class _Parts:
    """The parts of a class that have been collected so far."""

    def __init__(self, title: str, main: dict[str, Any]):
        self.title, self.main = title, main
        self.imports: set[str] = set()
        self.constants: dict[str, str] = {}
        self.definitions: dict[str, Definition] = {}

    def add(self, name: str) -> None:
        """Add a global and everything that it uses."""
        value = self.main[name]
        if isinstance(value, ModuleType):
            self._import(name, value.__name__)
        elif (constant := _constant(value)) is not None:
            self.constants[name] = f"{name} = {constant}"
        elif getattr(value, "__module__", None) in MAIN and hasattr(value, "__qualname__"):
            self._define(name, value)
        elif found := _home(value) or import_of(name, value):
            self._import(name, *found)
        else:
            why = f"it uses {name!r}, an object of type {type(value).__name__}, which no other process has"
            raise self._refused(why, "make that inside the class")

    def ordered(self) -> list[str]:
        """The sources, each after those that it uses, unless these need it themselves when they are made."""
        done: dict[str, None] = {}
        active: set[str] = set()

        def needs(name: str) -> list[str]:
            return reach(name, lambda one: self.definitions[one].at_once & self.definitions.keys())

        def visit(name: str) -> None:
            if name in active:
                return
            active.add(name)
            own = self.definitions[name]
            for other in sorted((own.at_once | own.later) & self.definitions.keys()):
                if name not in needs(other):
                    visit(other)
            done[name] = None

        for name in sorted(self.definitions):
            visit(name)
        return [self.definitions[name].source for name in done]

    def _define(self, name: str, value: Any) -> None:
        own = value.__name__
        if "<locals>" in value.__qualname__:
            why = f"it uses {name!r}, which is defined inside a function, whose variables it may use"
            raise self._refused(why, "define that outside of the function")
        if own != name and self.main.get(own) is value:
            found: Definition | None = Definition(f"{name} = {own}", frozenset({own}))
        else:
            found = definition(name, value)
        if found is None:
            raise self._refused(f"the source of {name!r} is not kept, as at a plain Python prompt or under %%time")
        self.definitions[name] = found
        for other in sorted((found.at_once | found.later) - self.definitions.keys()):
            if other in self.main and not other.startswith("__"):
                self.add(other)
            elif not hasattr(builtins, other) and other not in self.main:
                raise self._refused(f"it uses {other!r}, which is not defined", "define that")
        for node in ast.walk(ast.parse(found.source)):  # `import a.b` binds a: what is used below it is imported too
            dotted = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
            if (top := dotted.partition(".")[0]) and dotted in sys.modules and self.main.get(top) is sys.modules[top]:
                self.imports.add(f"import {dotted}")

    def _import(self, name: str, module: str, attribute: str = "") -> None:
        if not _found_elsewhere(module.partition(".")[0]):
            where = getattr(sys.modules.get(module), "__file__", None)
            why = f"it uses {name!r}, and only this process finds the module {module} (in {where})"
            raise self._refused(why, "install that module")
        line = f"from {module} import {attribute}" if attribute else f"import {module}"
        self.imports.add(line if name == (attribute or module) else f"{line} as {name}")

    def _refused(self, why: str, way_out: str = "") -> SpecError:
        file = f"put {self.title} into a file, with what it needs beside it, and name it as file.py:{self.title}"
        return SpecError(f"{self.title}: {why}: " + (f"{way_out}, or {file}" if way_out else file))


def _home(value: Any) -> tuple[str, str] | None:
    """The module and name that a class or function can be imported by: of its module and the packages above, the highest."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", getattr(value, "__name__", None))
    parts = module.split(".") if isinstance(module, str) and isinstance(name, str) else []
    homes = (".".join(parts[: end + 1]) for end in range(len(parts)))
    return next(((home, str(name)) for home in homes if getattr(sys.modules.get(home), str(name), None) is value), None)


def _constant(value: Any) -> str | None:
    """Plain data as Python text, or None where it is something else."""
    kind = type(value)
    if value is None or kind in (bool, int, str, bytes, complex):
        return repr(value)
    if kind is float:
        return repr(value) if math.isfinite(value) else f"float({str(value)!r})"
    if (kind.__module__, kind.__name__) == ("torch", "dtype"):
        return f"__import__('torch').{str(value).partition('.')[2]}"
    if kind not in (tuple, list, dict) and get_origin(value) is not Literal:
        return None
    items = [one for pair in value.items() for one in pair] if kind is dict else get_args(value) or value
    texts = [text for text in map(_constant, items) if text is not None]
    if len(texts) < len(items):
        return None
    if kind is dict:
        return "{" + ", ".join(f"{key}: {one}" for key, one in zip(texts[::2], texts[1::2], strict=True)) + "}"
    inside = ", ".join(texts) + "," * (kind is tuple and len(texts) == 1)
    return {list: f"[{inside}]", tuple: f"({inside})"}.get(kind, f"__import__('typing').Literal[{inside}]")


def _found_elsewhere(top: str) -> bool:
    """Whether a process that is started in another folder finds a module."""
    if top in (*sys.stdlib_module_names, "recollect") or PathFinder.find_spec(top, list(_fresh_path())) is not None:
        return True
    finders = (finder for finder in sys.meta_path if finder is not PathFinder and hasattr(finder, "find_spec"))
    return any(finder.find_spec(top, None) is not None for finder in finders)


@cache
def _fresh_path() -> tuple[str, ...]:
    """Where a new process looks for modules, except the folder that it is started in."""
    import subprocess  # rarely needed, and slow to import

    words = [sys.executable, "-P", "-c", "import sys; print(*sys.path, sep='\\n')"]
    return tuple(subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines())
