"""Which files of its own folder a Python file imports, found by reading it: nothing is executed for it."""

import ast
import hashlib
import importlib.util
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

from recollect.spec.identity import digest

Parts = tuple[str, ...]


@dataclass(frozen=True)
class File:
    """A Python file as it was read."""

    path: Path
    source: bytes
    uses: Parts
    """The files of its folder that it imports itself, each by its path relative to the folder."""


def closure(path: Path, package: str = "") -> dict[str, File]:
    """The file and everything that it imports from its own folder, transitively: by path relative to the folder, itself first.

    Imports inside functions and under conditions count. `package` is the folder's dotted name where it is an importable
    package: then `from package.helper import x` names a file of the folder, else `from helper import x` does.
    """
    found: dict[str, File] = {}

    def read(name: str) -> Parts:
        source = (path.parent / name).read_bytes()
        found[name] = File(path.parent / name, source, tuple(sorted(_uses(path.parent, name, source, package))))
        return found[name].uses

    reach(path.name, read)
    return found


def reach(start: str, uses: Callable[[str], Iterable[str]]) -> list[str]:
    """A name, and everything that it uses directly or indirectly."""
    found, waiting = dict[str, None](), [start]
    while waiting:
        if (name := waiting.pop(0)) not in found:
            found[name] = None
            waiting += uses(name)
    return list(found)


def digest_of(files: Mapping[str, File]) -> str:
    """A hash of some files: of one file, the hash of its bytes."""
    hashes = {name: hashlib.sha256(file.source).hexdigest() for name, file in files.items()}
    return digest(hashes) if len(hashes) > 1 else next(iter(hashes.values()))[:16]


def package_of(name: str) -> Parts:
    """The package that a file is in, below its folder: `helper/sub.py` and `helper/__init__.py` are in `helper`."""
    return PurePosixPath(name).parts[:-1]


def is_installed(path: Path) -> bool:
    """Whether a path belongs to Python itself or to an installed package, so that the files beside it are not the user's."""
    python = Path(ast.__file__).parent
    return path.is_relative_to(python) or not {"site-packages", "dist-packages"}.isdisjoint(path.parts)


def shown(path: Path) -> str:
    """A path that is readable and that another process can resolve: relative to the working directory if it is inside it."""
    here = Path.cwd()
    return (path.relative_to(here) if path.is_relative_to(here) else path).as_posix()


def is_file(path: Path) -> bool:
    """Whether there is such a file; a name that no file can have is none."""
    try:
        return path.is_file()
    except OSError:
        return False


def lies_beside(folder: Path, top: str) -> bool:
    """Whether a top-level name refers to something in the folder: as for a script, the folder takes precedence over installed
    packages, except for a subfolder without `__init__.py`."""
    found = _module(folder, (top,))
    if found is None or top == "recollect" or is_installed(folder):
        return False
    installed = None if found.is_file() else importlib.util.find_spec(top)
    return installed is None or installed.origin is None


def _uses(folder: Path, name: str, source: bytes, package: str) -> set[str]:
    found: set[str] = set()
    for level, module, names in _statements(source):
        base = _inside(level, tuple(module.split(".")) if module else (), package_of(name), package)
        if base is None or not (level or package or lies_beside(folder, base[0])):
            continue
        wanted = names
        if "*" in names:  # it may import every module of the package
            wanted = tuple(path.stem for path in folder.joinpath(*base).glob("*.py") if path.stem != "__init__")
        modules = [(*base, one) for one in wanted if _module(folder, (*base, one)) is not None]
        for parts in (base, *modules):
            found.update(_files(folder, parts))
        defined = len(modules) < len(wanted) or not names  # a name that the package itself defines
        if package and not base and defined and (folder / "__init__.py").is_file():
            found.add("__init__.py")
    return found - {name}


@lru_cache(maxsize=4096)
def _statements(source: bytes) -> tuple[tuple[int, str, Parts], ...]:
    """The level, module and names of each import; none if the source is not valid Python, which loading it will report."""
    found: list[tuple[int, str, Parts]] = []
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(0, alias.name, ()) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append((node.level, node.module or "", tuple(alias.name for alias in node.names)))
    return tuple(found)


def _inside(level: int, module: Parts, own: Parts, package: str) -> Parts | None:
    """A module's path inside the folder, or None where it is not in the folder."""
    if level:
        return (*own[: len(own) - level + 1], *module) if level <= len(own) + 1 else None
    above = tuple(package.split(".")) if package else ()
    return module[len(above) :] if module[: len(above)] == above else None


def _files(folder: Path, parts: Parts) -> Iterator[str]:
    """The files that importing a module executes, its packages included."""
    for end in range(1, len(parts) + 1):
        path = _module(folder, parts[:end])
        if path is not None and path.is_file():
            yield path.relative_to(folder).as_posix()


def _module(folder: Path, parts: Parts) -> Path | None:
    """Where a module lies: its file, or the folder of a package without `__init__.py`."""
    inside = folder.joinpath(*parts)
    for path in (inside / "__init__.py", inside.with_name(f"{inside.name}.py")):
        if path.is_file():
            return path
    return inside if inside.is_dir() else None
