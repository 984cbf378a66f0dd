"""Which tasks there are, and how a task of your own is found."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, SerializeAsAny

from recollect.spec import SpecError, nearest, registry
from recollect.tasks.base import Task

TASKS: dict[str, type[Task]] = {}
"""The built-in tasks by kind; `recollect.tasks` fills it."""


def task_class(kind: str) -> type[Task]:
    """The task called `kind`: a built-in one, `module:Name`, `path/to/file.py:Name`, or one that an installed package
    offers under the entry-point group `recollect.tasks`."""
    if kind in TASKS:
        return TASKS[kind]
    if registry.is_reference(kind):
        found = registry.load(kind)
    elif kind in (offered := registry.from_entry_points("recollect.tasks")):
        found = offered[kind].load()
    else:
        raise SpecError(f"unknown task {kind!r}: {nearest(kind, [*TASKS, *offered])}; or module:Name of your own")
    if not (isinstance(found, type) and issubclass(found, Task)):
        raise SpecError(f"task {kind!r} is {found!r}; it must be a subclass of recollect.tasks.Task")
    if registry.is_reference(kind) and found.model_fields["kind"].annotation is not str:
        raise SpecError(f"task {kind!r}: {found.__name__} must leave out `kind`, which becomes {kind!r}")
    return found


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
