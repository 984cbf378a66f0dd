"""The source of a function or class that a notebook cell or a script defines, and the globals that it uses."""

import ast
import inspect
import linecache
import symtable
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from recollect.spec.errors import SpecError

MAIN = ("__main__", "__mp_main__")
"""The modules that only this process has: a notebook, or the script that was started."""


@dataclass(frozen=True)
class Definition:
    """A definition as text."""

    source: str
    at_once: frozenset[str]
    """The globals that it uses when it is made: bases, decorators, defaults, annotations, a class's body .."""
    later: frozenset[str] = frozenset()
    """.. and when it is called."""


def definition(name: str, thing: Any) -> Definition | None:
    """How a class or function of that name was defined; None where its source is unknown."""
    source = _class_source(thing) if inspect.isclass(thing) else _function_source(name, thing)
    if source is None:
        return None
    at_once, later = _globals(source)
    return Definition(source, frozenset(at_once - {name}), frozenset(later - {name}))


def import_of(name: str, value: Any) -> tuple[str, str] | None:
    """The module and name of the notebook's or script's `from module import name` that bound a global."""
    found = []
    for lines in _sources():
        for node in _walk(lines):
            if isinstance(node, ast.ImportFrom) and node.module in sys.modules and not node.level:
                names = [alias.name for alias in node.names if (alias.asname or alias.name) == name]
                found += [(node.module, one) for one in names if getattr(sys.modules[node.module], one, found) is value]
    return min(found, default=None)


def _function_source(name: str, thing: Any) -> str | None:
    function = inspect.unwrap(thing)
    function = function if isinstance(function, FunctionType) else getattr(function, "fn", None)  # as Triton's
    if not isinstance(function, FunctionType):
        return None
    lines, first = linecache.getlines(function.__code__.co_filename), function.__code__.co_firstlineno
    for node in _walk(lines):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            named = [getattr(target, "id", "") for target in node.targets] == [name]
        else:
            named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name
        if named and _lines(node)[0] == first:
            return _text(lines, node)
    return None


def _class_source(cls: type) -> str | None:
    methods = {attribute: code for attribute, value in vars(cls).items() if (code := _code(value)) is not None}
    for code in methods.values():
        lines = linecache.getlines(code.co_filename)
        for node in _classes(lines, cls.__name__):
            if code.co_firstlineno in _lines(node):
                _refuse_patched(cls, node, code.co_filename, methods)
                return _text(lines, node)
    # A class without functions does not know where it was defined: it is the one that was run last.
    found = [_text(lines, node) for lines in _sources() for node in _classes(lines, cls.__name__) if not methods]
    return found[-1] if found else None


def _refuse_patched(cls: type, node: ast.ClassDef, filename: str, methods: dict[str, CodeType]) -> None:
    """Refuse a class that was given methods after it was defined: its source does not have them."""
    bound = {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    for attribute, code in methods.items():
        where, line = code.co_filename, code.co_firstlineno
        if attribute not in bound and (where != filename or line not in _lines(node)):
            raise SpecError(
                f"{cls.__qualname__}.{attribute} was put there after the class was defined (at {where}:{line}), so the class's "
                "source does not have it: define it inside the class"
            )


def _code(value: Any) -> CodeType | None:
    """The code of a method or property that the user wrote; dataclasses write some themselves, in no file."""
    value = getattr(value, "fget", None) or getattr(value, "__func__", None) or value
    function = inspect.unwrap(value) if callable(value) else None
    if not isinstance(function, FunctionType) or function.__module__ not in MAIN:
        return None
    return None if function.__code__.co_filename == "<string>" else function.__code__


def _sources() -> list[list[str]]:
    """The lines of the script and of every cell, those of IPython as they were run one after another."""
    main = sys.modules["__main__"]
    script = getattr(main, "__file__", None)
    cells = [entry[2] for entry in linecache.cache.values() if len(entry) == 4 and entry[1] is None]
    run = [text.splitlines(keepends=True) for text in getattr(main, "In", ()) if isinstance(text, str)]
    return [*([linecache.getlines(script)] if script else []), *cells, *run]


def _walk(lines: list[str]) -> Iterator[ast.AST]:
    try:
        yield from ast.walk(ast.parse("".join(lines)))
    except SyntaxError:
        return


def _classes(lines: list[str], name: str) -> Iterator[ast.ClassDef]:
    return (node for node in _walk(lines) if isinstance(node, ast.ClassDef) and node.name == name)


def _lines(node: Any) -> range:
    """The numbers of a definition's lines, its decorators included."""
    first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
    return range(first, node.end_lineno + 1)


def _text(lines: list[str], node: Any) -> str:
    text = textwrap.dedent("".join(lines[number - 1] for number in _lines(node)))
    return "\n".join(line.rstrip() for line in text.splitlines())


def _globals(source: str) -> tuple[set[str], set[str]]:
    """The globals that a definition uses when it is made, and those that it uses when it is called."""
    at_once, later = set[str](), set[str]()

    def visit(table: symtable.SymbolTable, found: set[str]) -> None:
        found |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced() and symbol.is_global()}
        for inner in table.get_children():
            called_later = inner.get_type() == "function" and not inner.get_name().endswith(("comp", "genexpr"))
            visit(inner, later if called_later else found)

    visit(symtable.symtable(source, "definition", "exec"), at_once)
    return at_once, later
