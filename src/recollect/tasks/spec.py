"""A task as a specification names it: a kind, or a mapping with a kind and fields."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, SerializeAsAny

from recollect.spec import SpecError, nearest
from recollect.spec.definitions import MAIN
from recollect.spec.source import is_reference, reference
from recollect.tasks import TASKS
from recollect.tasks.base import Task

PRESETS: dict[str, dict[str, Any]] = {
    f"mqar-{n}-{pairs}": {"kind": "mqar", "length": n, "pairs": pairs, "filler": "blank", "variant": "zoology"}
    for n, pairs in ((64, 4), (128, 8), (256, 16), (512, 64), (1024, 128), (2048, 256))
}
"""Tasks by name: MQAR with 8,192 words as Zoology's figure 2 has it, and with longer rows as RWKV-7 (Peng et al. 2025)."""


def task_class(kind: str) -> type[Task]:
    """The class of the task called `kind`."""
    cls = TASKS.find(kind)
    if is_reference(kind) and cls.model_fields["kind"].annotation is not str:
        raise SpecError(f"task {kind!r}: {cls.__name__} must leave out `kind`, which becomes {kind!r}")
    return cls


def as_task(value: Any) -> Task:
    """A task from a task, a kind or a class (all defaults), or a mapping with `kind`, or with a `preset` to start from."""
    if isinstance(value, Task):
        if type(value).__module__ not in MAIN:
            return value
        # of a notebook or script: the task as other processes find it
        kind = reference(type(value)) if value.kind.startswith(MAIN) else value.kind
        fields = {name: getattr(value, name) for name in type(value).model_fields}
        return task_class(kind).model_validate({**fields, "kind": kind})
    if isinstance(value, str | type):
        value = {"kind": value}
    if isinstance(value, Mapping) and "preset" in value:
        if (name := str(value["preset"])) not in PRESETS:
            raise SpecError(f"unknown preset {name!r} of a task: {nearest(name, PRESETS)}")
        value = PRESETS[name] | {field: given for field, given in value.items() if field != "preset"}
    if not isinstance(value, Mapping) or not isinstance(value.get("kind"), str | type):
        raise SpecError(f"a task is a kind, a class, or a mapping with a `kind`, got {value!r}: {nearest('', TASKS)}")
    kind = TASKS.name(value["kind"])
    return task_class(kind).model_validate({**value, "kind": kind})


AnyTask = Annotated[SerializeAsAny[Task], BeforeValidator(as_task)]
