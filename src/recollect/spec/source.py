"""Code of the user's own, named in a specification as `module:Name` or `path/to/file.py:Name`."""

import hashlib
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import reduce
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from recollect.spec.cells import cell_text, write_cell
from recollect.spec.definitions import MAIN
from recollect.spec.errors import SpecError, nearest
from recollect.spec.files import file_of, load_file, loaded_files, try_import
from recollect.spec.identity import digest
from recollect.spec.imports import closure, digest_of, is_file, shown
from recollect.spec.state import watched_import

Thing = type | Callable[..., Any]
"""What a name can stand for: a class or a function."""
NAMED_FILE = re.compile(r"(.+\.py):([^\W\d][\w.]*)")
"""How a specification names a class in a file of the user's own."""
_placed: list[Path] = []
"""Folders below which the files of specifications lie: see `files_at`."""
_loaded: set[str] = set()
"""The names that were loaded while everything was trusted: the user's own."""
_untrusted: ContextVar[bool] = ContextVar("untrusted", default=False)


def is_reference(name: str) -> bool:
    """Whether a name points to code outside this package."""
    return ":" in name


@contextmanager
def untrusted(unless: bool = False) -> Iterator[None]:
    """While it lasts, a specification may come from elsewhere: of the code that it names, only what is built in, what installed
    packages offer as entry points, and what the user's own specifications have named already is imported."""
    token = _untrusted.set(not unless)
    try:
        yield
    finally:
        _untrusted.reset(token)


def load(reference: str) -> Any:
    """The object that `module:Name` or `path/to/file.py:Name` names."""
    if not _untrusted.get():
        _loaded.add(reference)
    elif reference not in _loaded:
        raise SpecError(f"{reference} is code that is not part of recollect; it is imported only with --trust")
    place, _, name = reference.rpartition(":")
    module = load_file(_where(place)) if place.endswith(".py") else _from_module(place)
    try:
        return reduce(getattr, name.split("."), module)
    except AttributeError:
        classes = [
            n for n, value in vars(module).items() if inspect.isclass(value) and value.__module__ == module.__name__
        ]
        choices = nearest(name, classes) if classes else "it defines no class"
        raise SpecError(f"{reference}: {place} has no {name!r}; {choices}") from None


def reference(thing: Thing) -> str:
    """The name by which `load` finds a class or function, in another process too.

    What was loaded from a file is `file.py:Name`, relative to the working directory where it lies below it; what a notebook cell
    or a script defines is written to a file and found there; all else is `module:Name`.
    """
    module, name = thing.__module__, thing.__qualname__
    if "<locals>" in name:
        raise SpecError(
            f"{name} is defined inside a function, where no other process finds it, and whose variables it may use: define it "
            "at the top level of a file or of a notebook cell"
        )
    if module in MAIN:
        return f"{write_cell(thing).as_posix()}:{name}"
    path = file_of(module)
    return f"{module if path is None else shown(path)}:{name}"


def source_digest(thing: Thing) -> str:
    """A hash of the file that defines a class and of all that it imports from its own folder, so that an edited file gives new
    runs."""
    module = thing.__module__
    if module in MAIN:
        return hashlib.sha256(cell_text(thing).encode()).hexdigest()[:16]
    if file_of(module) is not None:
        return digest_of(loaded_files(module))
    try:
        path = Path(inspect.getfile(thing))
        package = getattr(sys.modules.get(module), "__package__", "") or ""
        return digest_of(closure(path, package))
    except (OSError, TypeError) as error:
        raise SpecError(
            f"{thing.__qualname__}: its source file cannot be read, so its versions cannot be distinguished: {error}"
        ) from None


def own_files(spec: Any) -> dict[str, Path]:
    """The files behind every `file.py:Name` in a specification's plain data, with the files beside them that they import, each by
    the name that it gets below another folder (see `files_at`)."""
    found: dict[str, Path] = {}
    for name in existing_files(spec):
        top, *beside = closure(Path(name).resolve()).items()
        found[portable(name)] = top[1].path
        found.update({(PurePosixPath(portable(name)).parent / other).as_posix(): file.path for other, file in beside})
    return found


def named_code(spec: Any) -> Iterator[tuple[str, str]]:
    """The names of code that is not part of recollect in a specification's plain data, each with the hash of its source."""
    for key, value in spec.items() if isinstance(spec, dict) else enumerate(spec if isinstance(spec, list) else ()):
        if isinstance(value, dict | list):
            yield from named_code(value)
        elif isinstance(spec, dict) and (source := spec.get("source" if key == "kind" else f"{key}_source")):
            yield str(value), str(source)


def named_files(spec: Any) -> set[str]:
    """The files that a specification's plain data names classes in, as they are written there, whether they exist or not."""
    if isinstance(spec, dict | list | tuple):
        return set().union(*map(named_files, spec.values() if isinstance(spec, dict) else spec))
    found = NAMED_FILE.fullmatch(spec) if isinstance(spec, str) else None
    return {found[1]} if found else set()


def existing_files(spec: Any) -> list[str]:
    """Those of them that exist, sorted."""
    return sorted(name for name in named_files(spec) if is_file(Path(name)))


def portable(name: str) -> str:
    """The name of a file below any folder: as it is written, unless the path leads out of the folder."""
    path = PurePath(name)
    if path.is_absolute() or ".." in path.parts:
        return f"outside-{digest(path.parent.as_posix())[:8]}/{path.name}"
    return path.as_posix()


@contextmanager
def files_at(folder: Path) -> Iterator[None]:
    """A context in which a specification's files are those below `folder` under their portable names, so that a run is the same
    as on the machine that named them."""
    _placed.append(folder)
    try:
        yield
    finally:
        _placed.remove(folder)


def _where(place: str) -> Path:
    moved = (folder / portable(place) for folder in reversed(_placed))
    return next((path for path in moved if is_file(path)), Path(place))


def _from_module(name: str) -> Any:
    try_import(name, f"module {name!r}", _from_module, name)
    try:
        with watched_import(name, f"importing module {name!r}"):
            return importlib.import_module(name)
    except SpecError as error:
        cause = error.__cause__
        if isinstance(cause, ModuleNotFoundError) and f"{name}.".startswith(f"{cause.name}."):
            raise SpecError(f"cannot import module {name!r}: {cause}") from None
        raise
