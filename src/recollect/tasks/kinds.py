"""Which tasks there are, and how a task of your own is found."""

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

from pydantic import BeforeValidator, SerializeAsAny

from recollect.spec import SpecError, nearest
from recollect.tasks.base import Task

TASKS: dict[str, type[Task]] = {}
"""The built-in tasks by kind; `recollect.tasks` fills it."""


def task_class(kind: str) -> type[Task]:
    """The task called `kind`: a built-in one, `module:Name`, `path/to/file.py:Name`, or one that an installed package
    offers under the entry-point group `recollect.tasks`."""
    if kind in TASKS:
        return TASKS[kind]
    if ":" in kind:
        place, _, name = kind.rpartition(":")
        found = getattr(_module(kind, place), name, None)
    else:
        offered = {entry.name: entry for entry in entry_points(group="recollect.tasks")}
        if kind not in offered:
            choices = nearest(kind, {*TASKS, *offered})
            raise SpecError(f"unknown task {kind!r}: {choices}, or give module:Name or file.py:Name")
        found = offered[kind].load()
    if not (isinstance(found, type) and issubclass(found, Task)):
        raise SpecError(f"task {kind!r} is {found!r}; it must be a subclass of recollect.tasks.Task")
    if ":" in kind and found.model_fields["kind"].annotation is not str:
        raise SpecError(f"task {kind!r}: {found.__name__} must leave out `kind`, which becomes {kind!r}")
    return found


def _module(kind: str, place: str) -> ModuleType:
    if not place.endswith(".py"):
        try:
            return importlib.import_module(place)
        except ModuleNotFoundError as error:
            raise SpecError(f"task {kind!r}: {error}") from error
    path = Path(place).resolve()
    if not path.is_file():
        raise SpecError(f"task {kind!r}: there is no file {path}")
    name = str(path)  # one import a file, so that its classes stay the same; and `module:Name` finds them again
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise SpecError(f"task {kind!r}: {path} cannot be imported")
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def as_task(value: Any) -> Task:
    """A task from a task, a kind (all defaults) or a mapping with `kind`."""
    if isinstance(value, Task):
        return value
    if isinstance(value, str):
        value = {"kind": value}
    if not isinstance(value, Mapping) or not isinstance(value.get("kind"), str):
        raise SpecError(f"a task is a kind, or a mapping with a `kind`, got {value!r}: {nearest('', TASKS)}")
    return task_class(value["kind"]).model_validate(dict(value))


AnyTask = Annotated[SerializeAsAny[Task], BeforeValidator(as_task)]
"""A field that holds any task: given as a task, as a kind, or as a mapping with `kind`; dumped with all its fields."""
