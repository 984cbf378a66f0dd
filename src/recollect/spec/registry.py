"""One way from a name to a class: built in, `module:Name`, `path/to/file.py:Name`, or an installed package's entry point.

Every package that can be extended has a registry in its `__init__.py`, which imports nothing heavy: names can be listed,
completed and refused without loading torch. An entry is loaded when it is used.
"""

import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from recollect.spec.errors import SpecError, nearest
from recollect.spec.source import is_reference, load, reference, source_digest
from recollect.spec.state import watched_import

T = TypeVar("T")


class Registry(Generic[T]):
    """The entries of one kind, by name."""

    def __init__(self, what: str, group: str, built_in: Mapping[str, str], base: str = ""):
        """`what` names the kind in messages, `group` the entry points, `built_in` gives `module:Name` by name; `base` is the
        `module:Class` that every entry must derive from."""
        self.what, self.group, self.built_in, self._base = what, group, dict(built_in), base

    def __iter__(self) -> Iterator[str]:
        """The names that need no import path: built in first, then those of installed packages."""
        return iter(dict.fromkeys([*self.built_in, *self._entry_points()]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: str) -> bool:
        return name in self.built_in or name in self._entry_points()

    def find(self, name: str) -> T:
        """The entry of that name; an unknown one is refused with the nearest."""
        if name in self.built_in:
            return pkgutil.resolve_name(self.built_in[name])
        if is_reference(name):
            found: Any = load(name)
        elif name in (offered := self._entry_points()) or name in (offered := self._entry_points(again=True)):
            entry = offered[name]
            which = f"{self.what} {name!r}, which an installed package offers as {entry.value}"
            with watched_import(entry.module, f"{which}, cannot be imported: it"):
                found = entry.load()
        elif name.endswith(".py"):
            raise SpecError(f"{self.what} {name!r}: name the class in it as well, as {name}:Name")
        else:
            own = "file.py:Name or module:Name of your own"
            raise SpecError(f"unknown {self.what} {name!r}: {nearest(name, self)}; or {own}")
        self._check(name, found)
        return found

    def name(self, entry: Any) -> str:
        """The name by which another process finds an entry, which is given as that name or as the class itself."""
        if isinstance(entry, str):
            return entry
        place = f"{getattr(entry, '__module__', '')}:{getattr(entry, '__qualname__', '')}"
        for name, own in self.built_in.items():
            if own == place:
                return name
        self._check(place, entry)
        found = reference(entry)
        offered = {entry.value: name for name, entry in reversed(self._entry_points().items())}  # the first
        return offered.get(place, place) if found == place else found

    def _check(self, name: str, found: Any) -> None:
        if self._base and not (inspect.isclass(found) and issubclass(found, pkgutil.resolve_name(self._base))):
            base = self._base.replace(":", ".")
            raise SpecError(f"{self.what} {name!r} is {_what(found)}, not a class derived from {base}")

    def source(self, name: str) -> str:
        """A hash of the code behind a name, so that an edited file gives new runs; empty for built-in entries."""
        found: Any = self.find(name)
        return "" if name in self.built_in else source_digest(found)

    def _entry_points(self, again: bool = False) -> dict[str, EntryPoint]:
        if again:  # a package may have been installed since
            _offered.cache_clear()
        return _offered(self.group, tuple(sys.path), entry_points)


def _what(found: Any) -> str:
    return f"the class {found.__name__}" if inspect.isclass(found) else repr(found)


@cache
def _offered(group: str, path: tuple[str, ...], scan: Callable[..., Iterable[EntryPoint]]) -> dict[str, EntryPoint]:
    """The entry points of a group by name, read once, since reading takes milliseconds; `path` is where they were searched."""
    return {entry.name: entry for entry in scan(group=group)}
