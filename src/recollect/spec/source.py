"""Code of the user's own, named in a specification as `module:Name` or `path/to/file.py:Name`."""

import hashlib
import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from recollect.spec.base import SpecError, nearest

_FILE = "recollect_file_"
"""How the modules that are made of files are called."""


def is_reference(name: str) -> bool:
    """Whether a name points to code outside this package."""
    return ":" in name


def load(reference: str) -> Any:
    """The object that `module:Name` or `path/to/file.py:Name` names."""
    place, _, name = reference.rpartition(":")
    module = _from_file(Path(place)) if place.endswith(".py") else _from_module(place)
    if not hasattr(module, name):
        classes = [
            n for n, value in vars(module).items() if inspect.isclass(value) and value.__module__ == module.__name__
        ]
        raise SpecError(
            f"{reference}: {place} has no {name!r}; {nearest(name, classes) if classes else 'it defines no class'}"
        )
    return getattr(module, name)


def reference(thing: type) -> str:
    """The name that `load` finds a class by, in another process too."""
    module = sys.modules[thing.__module__]
    place = module.__file__ if thing.__module__.startswith(_FILE) else thing.__module__
    return f"{place}:{thing.__qualname__}"


def source_digest(thing: type) -> str:
    """A hash of the file that defines a class, so that an edited file makes new runs."""
    try:
        text = Path(inspect.getfile(thing)).read_bytes()
    except (OSError, TypeError) as error:
        raise SpecError(
            f"{thing.__qualname__}: its source file cannot be read, so runs of it cannot be told apart: {error}"
        ) from None
    return hashlib.sha256(text).hexdigest()[:16]


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise SpecError(f"no file {str(path)!r}")
    # The name carries the content, so an edited file is loaded anew even within one process.
    name = f"{_FILE}{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}_{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None, path
    assert spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pydantic look a class's module up while it is being defined
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise SpecError(f"{path}: importing it raised {type(error).__name__}: {error}{_beside(path, error)}") from error
    return module


def _beside(path: Path, error: BaseException) -> str:
    """What to do where a file wants to import another that lies beside it."""
    name = str(error.name).partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if not name or not any(path.with_name(other).exists() for other in (f"{name}.py", name)):
        return ""
    return (
        f" ({name} lies beside it, but a file is loaded alone, so that the identity of its runs covers all of its code: put both "
        "into one file, or install them as a package and name it as module:Name)"
    )


def _from_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise SpecError(f"cannot import module {name!r}: {error}") from None
