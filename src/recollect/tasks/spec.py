"""A task as a specification names it: a kind, or a mapping with a kind and fields."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, SerializeAsAny

from recollect.spec import SpecError, nearest
from recollect.spec.definitions import MAIN
from recollect.spec.source import is_reference, reference
from recollect.tasks import TASKS
from recollect.tasks.base import Task


def task_class(kind: str) -> type[Task]:
    """The class of the task called `kind`."""
    found = TASKS.find(kind)
    if is_reference(kind) and found.model_fields["kind"].annotation is not str:
        raise SpecError(f"task {kind!r}: {found.__name__} must leave out `kind`, which becomes {kind!r}")
    return found


def as_task(value: Any) -> Task:
    """A task from a task, a kind or a class (all defaults), or a mapping with `kind`."""
    if isinstance(value, Task):
        if type(value).__module__ not in MAIN:
            return value
        # of a notebook or script: the task as other processes find it
        kind = reference(type(value)) if value.kind.startswith(MAIN) else value.kind
        fields = {name: getattr(value, name) for name in type(value).model_fields}
        return task_class(kind).model_validate({**fields, "kind": kind})
    if isinstance(value, str | type):
        value = {"kind": value}
    if not isinstance(value, Mapping) or not isinstance(value.get("kind"), str | type):
        raise SpecError(f"a task is a kind, a class, or a mapping with a `kind`, got {value!r}: {nearest('', TASKS)}")
    kind = TASKS.name(value["kind"])
    return task_class(kind).model_validate({**value, "kind": kind})


AnyTask = Annotated[SerializeAsAny[Task], BeforeValidator(as_task)]
