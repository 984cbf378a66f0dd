"""Recall tasks, one file each: a task is a frozen specification that samples a Batch."""

import importlib
from typing import TYPE_CHECKING, Any

from recollect.spec.registry import Registry

if TYPE_CHECKING:
    from recollect.tasks.ar import AR
    from recollect.tasks.base import Batch, Task
    from recollect.tasks.compositional import Compositional
    from recollect.tasks.copy import Copy
    from recollect.tasks.duplicates import Duplicates
    from recollect.tasks.fuzzy import Fuzzy
    from recollect.tasks.induction import Induction
    from recollect.tasks.mixture import Mixture
    from recollect.tasks.mqar import MQAR
    from recollect.tasks.ngram import NGram
    from recollect.tasks.noisy import Noisy
    from recollect.tasks.position import Position
    from recollect.tasks.selective_copy import SelectiveCopy
    from recollect.tasks.spec import AnyTask, as_task, task_class
    from recollect.tasks.updating import Updating

TASKS: "Registry[type[Task]]" = Registry(
    "task",
    group="recollect.tasks",
    base="recollect.tasks:Task",
    built_in={
        "mqar": "recollect.tasks.mqar:MQAR",
        "ar": "recollect.tasks.ar:AR",
        "copy": "recollect.tasks.copy:Copy",
        "ngram": "recollect.tasks.ngram:NGram",
        "duplicates": "recollect.tasks.duplicates:Duplicates",
        "position": "recollect.tasks.position:Position",
        "mixture": "recollect.tasks.mixture:Mixture",
        "induction": "recollect.tasks.induction:Induction",
        "selective_copy": "recollect.tasks.selective_copy:SelectiveCopy",
        "noisy": "recollect.tasks.noisy:Noisy",
        "fuzzy": "recollect.tasks.fuzzy:Fuzzy",
        "compositional": "recollect.tasks.compositional:Compositional",
        "updating": "recollect.tasks.updating:Updating",
    },
)

__all__ = [
    "AR", "MQAR", "TASKS", "AnyTask", "Batch", "Compositional", "Copy", "Duplicates", "Fuzzy", "Induction", "Mixture", "NGram",
    "Noisy", "Position", "SelectiveCopy", "Task", "Updating", "as_task", "task_class",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """The classes, loaded when they are first used, since they import torch."""
    homes = {attribute: module for module, _, attribute in (place.partition(":") for place in TASKS.built_in.values())}
    homes |= dict.fromkeys(("Batch", "Task"), "recollect.tasks.base")
    homes |= dict.fromkeys(("AnyTask", "as_task", "task_class"), "recollect.tasks.spec")
    if name in homes:
        return getattr(importlib.import_module(homes[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
