"""The names that a configuration script written in Python defines, without executing it.

The script is parsed, and a small part of the language is evaluated here: literals, arithmetic, loops, conditions, comprehensions,
the script's own functions, and a few harmless functions of Python and numpy. A class that the script imports is never loaded:
calling it makes a `Made` with its name and its keyword arguments. Everything else is refused, with the line.
"""

import ast
from pathlib import Path
from typing import Any

from recollect.importing.expressions import Function, Imported, Jump, Made, Reader
from recollect.spec import SpecError

__all__ = ["Function", "Made", "call", "read_script"]


class _Returned(Jump):
    """Ends a function of the script."""


class _Broken(Jump):
    """Ends a loop of the script."""


class _Continued(Jump):
    """Ends one round of a loop of the script."""


def read_script(path: Path) -> dict[str, Any]:
    """The names that a script defines."""
    return _Script(path).names


def call(function: Any, *arguments: Any) -> Any:
    """The result of a function that a script defines."""
    reader = _Script(None)
    return reader.call(function, list(arguments), {})


class _Script(Reader):
    """Evaluates one script; `read` has the names of all that were begun for it, as a module may import one that imports it."""

    def __init__(self, path: Path | None, read: dict[Path, dict[str, Any]] | None = None):
        super().__init__(path)
        self.names, self.depth, self.read = dict[str, Any](), 0, {} if read is None else read
        if path is None:
            return
        self.read[path.resolve()] = self.names
        try:
            tree = ast.parse(path.read_text(), str(path))
        except (OSError, UnicodeDecodeError, SyntaxError, ValueError, MemoryError, RecursionError) as error:
            raise SpecError(f"{path}: cannot be read as Python: {error}") from None
        try:
            self.run(tree.body, self.names)
        except RecursionError:
            raise SpecError(f"{path}: is nested too deeply to be read") from None

    def run(self, body: list[ast.stmt], names: dict[str, Any]) -> None:
        for node in body:
            with self.at(node):
                self._statement(node, names)

    def _statement(self, node: ast.stmt, names: dict[str, Any]) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                names[alias.asname or top] = Imported(alias.name if alias.asname else top)
        elif isinstance(node, ast.ImportFrom):
            self._import(node, names)
        elif isinstance(node, ast.Assign):
            value = self.value(node.value, names)
            for target in node.targets:
                self.bind(target, value, names)
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self.bind(node.target, self.value(node.value, names), names)
        elif isinstance(node, ast.AugAssign):
            value = self._binary(node.op, self._load(node.target, names), self.value(node.value, names))
            self.bind(node.target, value, names)
        elif isinstance(node, ast.For):
            self._loop(node, names)
        elif isinstance(node, ast.If):
            self.run(node.body if self.value(node.test, names) else node.orelse, names)
        elif isinstance(node, ast.FunctionDef):
            names[node.name] = Function(node, names, self.path)
        elif isinstance(node, ast.Return):
            raise _Returned(None if node.value is None else self.value(node.value, names))
        elif isinstance(node, ast.Expr):
            self.value(node.value, names)
        elif isinstance(node, ast.Continue):
            raise _Continued
        elif isinstance(node, ast.Break):
            raise _Broken
        elif not isinstance(node, ast.Pass):
            raise self.refuse(node, f"a statement of the kind {type(node).__name__} is not supported")

    def _import(self, node: ast.ImportFrom, names: dict[str, Any]) -> None:
        """Read a module that lies beside the script, or below a folder above it, too; record only the names of any other."""
        defined = self._module(node.module or "", node.level)
        for alias in node.names:
            other = Imported(f"{node.module}.{alias.name}")
            names[alias.asname or alias.name] = defined.get(alias.name, other)

    def _module(self, name: str, level: int) -> dict[str, Any]:
        """The names of a module; of one in another folder, such as Zoology's own classes, those before what is not supported."""
        if not (self.path and name):
            return {}
        above = self.path.resolve().parents
        beside = self.path.with_name(f"{name.rpartition('.')[2]}.py")
        others = [folder / f"{name.replace('.', '/')}.py" for folder in (above[level - 1 : level] if level else above)]
        for path in (beside, *others):
            if path.is_file() and path.resolve() not in self.read:
                try:
                    return _Script(path, self.read).names
                except SpecError:
                    if path == beside:
                        raise
            if path.resolve() in self.read and path.resolve() != self.path.resolve():
                return self.read[path.resolve()]
        return {}

    def _loop(self, node: ast.For, names: dict[str, Any]) -> None:
        for item in self.value(node.iter, names):
            self.bind(node.target, item, names)
            try:
                self.run(node.body, names)
            except _Continued:
                continue
            except _Broken:
                return
        self.run(node.orelse, names)

    def _load(self, target: ast.expr, names: dict[str, Any]) -> Any:
        return self.value(ast.parse(ast.unparse(target), mode="eval").body, names)

    def call(self, function: Any, positional: list[Any], keyword: dict[str, Any]) -> Any:
        if not isinstance(function, Function):
            return super().call(function, positional, keyword)
        if self.depth >= 50:
            raise ValueError("functions that call one another more than 50 deep are not supported")
        caller, self.path, self.depth = self.path, function.path, self.depth + 1
        try:
            self.run(function.node.body, function.names | self._arguments(function, positional, keyword))
        except _Returned as returned:
            return returned.args[0]
        finally:
            self.path, self.depth = caller, self.depth - 1
        return None

    def _arguments(self, function: Function, positional: list[Any], keyword: dict[str, Any]) -> dict[str, Any]:
        arguments = function.node.args
        names = [one.arg for one in [*arguments.posonlyargs, *arguments.args]]
        defaults = [self.value(one, function.names) for one in arguments.defaults]
        bound = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
        for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            bound |= {} if default is None else {one.arg: self.value(default, function.names)}
        if arguments.vararg:
            bound[arguments.vararg.arg] = tuple(positional[len(names) :])
        known = {*names, *(one.arg for one in arguments.kwonlyargs)}
        if arguments.kwarg:
            bound[arguments.kwarg.arg] = {name: value for name, value in keyword.items() if name not in known}
        bound |= dict(zip(names, positional, strict=False))
        return bound | {name: value for name, value in keyword.items() if name in known}
