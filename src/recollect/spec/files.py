"""A user's file as a module: it finds the files beside it, and an edited file is loaded anew.

A file and the files of its folder that it imports become modules of a package that exists in memory only. They are executed from
the bytes that were read when the file was named, which are the bytes that the identity of its runs is computed from, even if an
import inside a function runs much later. An `import helper` that names a file of the folder is compiled as `from . import
helper`; all other imports are left as they are, and nothing is put into `sys.path`.
"""

import ast
import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

from recollect.spec.apart import is_worker, run_apart
from recollect.spec.cells import written
from recollect.spec.errors import SpecError
from recollect.spec.identity import digest
from recollect.spec.imports import File, closure, digest_of, is_file, lies_beside, package_of, reach, shown
from recollect.spec.state import watched_import

_PREFIX = "recollect_file_"
"""The prefix of the names of packages made from folders."""
_DOT = "%2e"
"""A dot in the name of a file, where that is the name of a module: there a dot would mean a package."""


class _Package:
    """The files of one folder that have been loaded together."""

    def __init__(self, name: str, folder: Path):
        self.name, self.folder, self.files = name, folder, dict[str, File]()
        module = ModuleType(name, "Files of one folder.")
        module.__path__ = []  # what makes it a package; its modules come from `_Finder`
        sys.modules[name] = module

    def holds(self, files: dict[str, File]) -> bool:
        """Whether each of these files is the same as when it was loaded."""
        return all(self.files.get(name, file) == file for name, file in files.items())


_packages: dict[str, _Package] = {}
"""By name, the latest last."""


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of these packages."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        package, _, inside = fullname.partition(".")
        if package not in _packages or not inside:
            return None
        files, place = _packages[package].files, inside.replace(".", "/")
        for name in (f"{place}/__init__.py", f"{place}.py", f"{inside.replace(_DOT, '.')}.py"):
            if name in files:
                loader = _Loader(name, files[name])
                spec = importlib.util.spec_from_file_location(fullname, files[name].path, loader=loader)
                if spec is not None and name.endswith("__init__.py"):
                    spec.submodule_search_locations = []  # no finder but this one finds its modules
                return spec
        if any(name.startswith(f"{place}/") for name in files):
            return ModuleSpec(fullname, None, is_package=True)  # a folder without __init__.py
        return None


class _Loader(importlib.abc.SourceLoader):
    """Executes a file as it was read, without a cache of compiled code, which could belong to another version."""

    def __init__(self, name: str, file: File):
        self.name, self.file = name, file

    def get_filename(self, fullname: str) -> str:
        return str(self.file.path)

    def get_data(self, path: str) -> bytes:
        return self.file.source

    def source_to_code(self, data: Any, path: Any, *, _optimization: int = -1) -> Any:
        tree = _Relative(self.name, self.file).visit(ast.parse(data, path))
        return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True, optimize=_optimization)


class _Relative(ast.NodeTransformer):
    """Makes imports of files in the folder relative, so that they are found in their package."""

    def __init__(self, name: str, file: File):
        self.level = len(package_of(name)) + 1
        self.beside = {PurePosixPath(use).parts[0].removesuffix(".py") for use in file.uses}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        if not node.level and self._is_beside(node.module or ""):
            node.level = self.level
        return node

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        others = [alias for alias in node.names if not self._is_beside(alias.name)]
        found: list[ast.stmt] = [ast.copy_location(ast.Import(others), node)] if others else []
        for alias in node.names:
            above, _, last = alias.name.rpartition(".")
            top = alias.name.partition(".")[0]
            if alias in others:
                continue
            if above:  # `import a.b` loads a.b and binds a; `import a.b as c` binds a.b
                found.append(self._from(above, last, alias.asname or top, node))
            if not (above and alias.asname):
                found.append(self._from(None, top, alias.asname or top, node))
        return found

    def _is_beside(self, module: str) -> bool:
        return module.partition(".")[0] in self.beside

    def _from(self, module: str | None, name: str, bound: str, node: ast.stmt) -> ast.stmt:
        return ast.copy_location(ast.ImportFrom(module, [ast.alias(name, bound)], self.level), node)


def load_file(path: Path) -> ModuleType:
    """The module that a file is, loaded anew when the file, or one of its folder that it imports, has changed."""
    if not is_file(path):
        raise SpecError(f"no file {str(path)!r}")
    place = path.resolve()
    package = _package(place.parent, closure(place))
    name = f"{package.name}.{place.stem.replace('.', _DOT)}"
    if place not in written:
        try_import(name, str(path), load_file, place)
    try:
        with watched_import(name, f"{path}: importing it", shown(place)):
            return importlib.import_module(name)
    except SpecError as error:
        text, cause = str(error).replace(f"{package.name}.", ""), error.__cause__
        if isinstance(cause, ModuleNotFoundError):
            top = str(cause.name).removeprefix(f"{package.name}.").partition(".")[0]
            if lies_beside(place.parent, top):
                text += f"; {top} lies beside it, where only import statements find it"
        raise SpecError(text) from cause


def try_import(module: str, shown: str, load: Callable[[Any], Any], given: Any) -> None:
    """Import a module of a user's own in another process first, if it is new here: code that ends the process ends that one, and
    is refused. An error is left for the import in this process to raise. A worker, whose end is noticed, imports at once."""
    if module not in sys.modules and not is_worker():
        for _ in run_apart(f"{shown}: importing it", _survives, load, given, quiet=True):
            pass


def _survives(load: Callable[[Any], Any], given: Any) -> tuple[()]:
    with suppress(SpecError):
        load(given)
    return ()


def file_of(module: str) -> Path | None:
    """The file that a module was loaded from by `load_file`, or None where it is any other module."""
    return Path(str(sys.modules[module].__file__)) if module.partition(".")[0] in _packages else None


def loaded_files(module: str) -> dict[str, File]:
    """The file of a module that `load_file` loaded, and those that it imports, as they were when it was loaded."""
    loader: Any = sys.modules[module].__loader__
    files = _packages[module.partition(".")[0]].files
    return {name: files[name] for name in reach(loader.name, lambda name: files[name].uses)}


def _package(folder: Path, files: dict[str, File]) -> _Package:
    """The package of a folder that has these files or can take them; a new one where one of them has changed."""
    package = next((one for one in reversed(_packages.values()) if one.folder == folder and one.holds(files)), None)
    if package is None:
        uses = {name: file.uses for name, file in files.items()}
        package = _Package(_PREFIX + digest([str(folder), digest_of(files), uses]), folder)
        _packages[package.name] = package
    package.files.update(files)
    return package


sys.meta_path.append(_Finder())
