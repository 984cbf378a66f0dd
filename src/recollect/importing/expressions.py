"""The expressions of a script, evaluated without executing any of it: see script.py."""

import ast
import operator
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from recollect.spec import SpecError

MOST_STEPS = 300_000
"""The most expressions that are evaluated: the limit of a script that would not end."""
MOST_ITEMS = 100_000
"""The most items of a list, or letters of a text."""
MOST_BITS = 4096
"""The largest whole number."""
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (dict, list, tuple, set, len, max, min, any, all, int, float, bool, abs, round, enumerate, zip, sorted)
}  # fmt: skip
_METHODS = {
    list: ("append", "extend", "copy", "index", "count", "insert"),
    dict: ("items", "keys", "values", "get", "update", "copy"),
    str: ("lower", "upper", "split", "startswith", "endswith", "strip"),
}
_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.Eq: operator.eq,
    ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip


def _text(value: Any = "") -> str:
    if not isinstance(value, bool | int | float | str | None):
        raise ValueError(f"a {type(value).__name__} as text is not supported")
    return str(value)


def _sum(numbers: Any, start: Any = 0) -> Any:
    added = [start, *numbers]
    if any(isinstance(number, list | tuple) for number in added):
        raise ValueError("the sum of lists is not supported")
    return sum(added)


_FUNCTIONS |= {"str": _text, "sum": _sum}


@dataclass
class Made:
    """An object that a script makes from a class it imports."""

    kind: str
    """The name of the class."""
    fields: dict[str, Any] = field(default_factory=dict)
    """Its keyword arguments, and the attributes that the script sets."""


@dataclass(frozen=True)
class Imported:
    """A module, class or function that the script imports, by its dotted name."""

    name: str


@dataclass(frozen=True)
class Function:
    """A function that a script defines."""

    node: ast.FunctionDef
    names: dict[str, Any]
    path: Path | None


class Jump(Exception):
    """Leaves a loop or a function of the script."""


class Reader:
    """Evaluates expressions, given the names that are known."""

    def __init__(self, path: Path | None):
        self.path, self.steps = path, 0

    def refuse(self, node: ast.AST, why: str) -> SpecError:
        """An error that names the line."""
        line = getattr(node, "lineno", "?")
        return SpecError(f"{self.path}:{line}: {why}; --trust runs the file instead, if you trust it")

    @contextmanager
    def at(self, node: ast.AST) -> Iterator[None]:
        """A context in which every error names the line."""
        try:
            yield
        except (SpecError, RecursionError, Jump):
            raise
        except Exception as error:
            raise self.refuse(node, f"{type(error).__name__}: {error}") from None

    def call(self, function: Any, positional: list[Any], keyword: dict[str, Any]) -> Any:
        """The result of a call: a `Made` for an imported name, otherwise what the method or function of Python returns."""
        if isinstance(function, Imported):
            return _make(function.name, positional, keyword)
        return function(*positional, **keyword)

    def bind(self, target: ast.expr, value: Any, names: dict[str, Any]) -> None:
        """Give a name, an attribute or an item a value."""
        if isinstance(target, ast.Name):
            names[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            for inner, item in zip(target.elts, value, strict=True):
                self.bind(inner, item, names)
        elif isinstance(target, ast.Attribute) and isinstance(made := self.value(target.value, names), Made):
            made.fields[target.attr] = value
        elif isinstance(target, ast.Subscript) and isinstance(owner := self.value(target.value, names), list | dict):
            owner[self.value(target.slice, names)] = value
        else:
            raise self.refuse(target, "an assignment of this kind is not supported")

    def value(self, node: ast.expr, names: dict[str, Any]) -> Any:
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise self.refuse(node, f"more than {MOST_STEPS:,} expressions are not supported")
        evaluate = getattr(self, f"_{type(node).__name__.lower()}", None)
        if evaluate is None:
            raise self.refuse(node, f"an expression of the kind {type(node).__name__} is not supported")
        with self.at(node):
            value = evaluate(node, names)
        if isinstance(value, str | list | tuple | dict | set) and len(value) > MOST_ITEMS:
            raise self.refuse(node, f"more than {MOST_ITEMS:,} items are not supported")
        if isinstance(value, int) and value.bit_length() > MOST_BITS:
            raise self.refuse(node, f"a number of more than {MOST_BITS:,} bits is not supported")
        return value

    def _constant(self, node: ast.Constant, names: dict[str, Any]) -> Any:
        return node.value

    def _name(self, node: ast.Name, names: dict[str, Any]) -> Any:
        if node.id in names:
            return names[node.id]
        if node.id in _FUNCTIONS:
            return _FUNCTIONS[node.id]
        if node.id in ("range", "print"):
            return Imported(node.id)
        if node.id == "__name__":
            return "config_module"  # as Zoology imports it
        raise self.refuse(node, f"the name {node.id!r} is not known")

    def _list(self, node: ast.List | ast.Tuple | ast.Set, names: dict[str, Any]) -> Any:
        kind = {ast.List: list, ast.Tuple: tuple, ast.Set: set}[type(node)]
        return kind(self._items(node.elts, names))

    _tuple = _set = _list

    def _items(self, nodes: list[ast.expr], names: dict[str, Any]) -> list[Any]:
        items = []
        for node in nodes:
            items += self.value(node.value, names) if isinstance(node, ast.Starred) else [self.value(node, names)]
        return items

    def _dict(self, node: ast.Dict, names: dict[str, Any]) -> dict[Any, Any]:
        items: dict[Any, Any] = {}
        for key, inner in zip(node.keys, node.values, strict=True):
            value = self.value(inner, names)
            items |= value if key is None else {self.value(key, names): value}
        return items

    def _binop(self, node: ast.BinOp, names: dict[str, Any]) -> Any:
        return self._binary(node.op, self.value(node.left, names), self.value(node.right, names))

    def _binary(self, op: ast.operator, left: Any, right: Any) -> Any:
        if isinstance(op, ast.Pow) and (abs(right) > 64 or abs(left) > 1e6):
            raise ValueError("a power this large is not supported")
        if isinstance(op, ast.Mult):
            for many, times in ((left, right), (right, left)):
                if isinstance(many, list | tuple | str) and len(many) * times > MOST_ITEMS:
                    raise ValueError(f"more than {MOST_ITEMS:,} items are not supported")
        if isinstance(op, ast.Mod) and isinstance(left, str):
            raise ValueError("text formatted with % is not read; f-strings are")
        return _OPERATORS[type(op)](left, right)

    def _unaryop(self, node: ast.UnaryOp, names: dict[str, Any]) -> Any:
        value = self.value(node.operand, names)
        return not value if isinstance(node.op, ast.Not) else -value if isinstance(node.op, ast.USub) else +value

    def _boolop(self, node: ast.BoolOp, names: dict[str, Any]) -> Any:
        value = None
        for inner in node.values:
            value = self.value(inner, names)
            if bool(value) is isinstance(node.op, ast.Or):
                return value
        return value

    def _compare(self, node: ast.Compare, names: dict[str, Any]) -> bool:
        left = self.value(node.left, names)
        for op, inner in zip(node.ops, node.comparators, strict=True):
            right = self.value(inner, names)
            if not _OPERATORS[type(op)](left, right):
                return False
            left = right
        return True

    def _ifexp(self, node: ast.IfExp, names: dict[str, Any]) -> Any:
        return self.value(node.body if self.value(node.test, names) else node.orelse, names)

    def _subscript(self, node: ast.Subscript, names: dict[str, Any]) -> Any:
        return self.value(node.value, names)[self.value(node.slice, names)]

    def _slice(self, node: ast.Slice, names: dict[str, Any]) -> slice:
        parts = (node.lower, node.upper, node.step)
        return slice(*(None if part is None else self.value(part, names) for part in parts))

    def _attribute(self, node: ast.Attribute, names: dict[str, Any]) -> Any:
        owner = self.value(node.value, names)
        if isinstance(owner, Imported):
            return Imported(f"{owner.name}.{node.attr}")
        if isinstance(owner, Made):
            if node.attr not in owner.fields:
                raise self.refuse(node, f"{owner.kind}.{node.attr} is not set in the file, and defaults are not read")
            return owner.fields[node.attr]
        if node.attr in next((allowed for kind, allowed in _METHODS.items() if type(owner) is kind), ()):
            return getattr(owner, node.attr)
        raise self.refuse(node, f".{node.attr} of a {type(owner).__name__} is not supported")

    def _joinedstr(self, node: ast.JoinedStr, names: dict[str, Any]) -> str:
        return "".join(str(self.value(part, names)) for part in node.values)

    def _formattedvalue(self, node: ast.FormattedValue, names: dict[str, Any]) -> str:
        spec = "" if node.format_spec is None else self.value(node.format_spec, names)
        if re.search(r"\d{4}", spec):
            raise self.refuse(node, f"the format {spec!r} is not supported")
        value = self.value(node.value, names)
        return format(value if isinstance(value, int | float) else _text(value), spec)

    def _listcomp(self, node: ast.ListComp | ast.GeneratorExp, names: dict[str, Any]) -> list[Any]:
        return [self.value(node.elt, inner) for inner in self._each(node.generators, names)]

    _generatorexp = _listcomp

    def _dictcomp(self, node: ast.DictComp, names: dict[str, Any]) -> dict[Any, Any]:
        return {self.value(node.key, n): self.value(node.value, n) for n in self._each(node.generators, names)}

    def _each(self, generators: list[ast.comprehension], names: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if not generators:
            yield names
            return
        for item in self.value(generators[0].iter, names):
            inner = dict(names)
            self.bind(generators[0].target, item, inner)
            if all(self.value(test, inner) for test in generators[0].ifs):
                yield from self._each(generators[1:], inner)

    def _call(self, node: ast.Call, names: dict[str, Any]) -> Any:
        positional = self._items(node.args, names)
        keyword: dict[str, Any] = {}
        for argument in node.keywords:
            value = self.value(argument.value, names)
            keyword |= value if argument.arg is None else {argument.arg: value}
        return self.call(self.value(node.func, names), positional, keyword)


def _make(name: str, positional: list[Any], keyword: dict[str, Any]) -> Any:
    """What the call of an imported name gives: numbers of numpy and `range`, nothing of `print`, else a `Made`."""
    if name == "print":
        return None
    if name == "range":
        made = range(*positional)
        if len(made) > MOST_ITEMS:
            raise ValueError(f"a range of more than {MOST_ITEMS:,} numbers is not supported")
        return made
    module, _, function = name.rpartition(".")
    if module in ("numpy", "np"):
        if function not in ("logspace", "linspace", "geomspace", "array"):
            raise ValueError(f"numpy.{function} is not supported")
        given = [*positional, *keyword.values()]
        flat = [n for one in given for n in (one if function == "array" and isinstance(one, list | tuple) else [one])]
        if any(not isinstance(n, int | float) or abs(n) > MOST_ITEMS for n in flat):
            raise ValueError(f"numpy.{function} of anything but numbers up to {MOST_ITEMS:,} is not supported")
        return getattr(np, function)(*positional, **keyword).tolist()
    if name == "uuid.uuid4":
        return Made("UUID", {"hex": "0" * 32})
    if positional:
        raise ValueError(f"{name} is called with arguments that have no names")
    return Made(function or name, dict(keyword))
