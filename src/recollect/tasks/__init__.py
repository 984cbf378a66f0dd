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
    from recollect.tasks.hops import Hops
    from recollect.tasks.induction import Induction
    from recollect.tasks.mad_compression import MADCompression
    from recollect.tasks.mad_fuzzy import MADFuzzy
    from recollect.tasks.mad_memorization import MADMemorization
    from recollect.tasks.mad_recall import MADNoisy, MADRecall
    from recollect.tasks.mad_selective_copy import MADSelectiveCopy
    from recollect.tasks.mixture import Mixture
    from recollect.tasks.modular import Modular
    from recollect.tasks.mqar import MQAR
    from recollect.tasks.ngram import NGram
    from recollect.tasks.noisy import Noisy
    from recollect.tasks.parity import Parity
    from recollect.tasks.position import Position
    from recollect.tasks.selective_copy import SelectiveCopy
    from recollect.tasks.spec import AnyTask, as_task, task_class
    from recollect.tasks.stacks import Stacks
    from recollect.tasks.updating import Updating
    from recollect.tasks.words import Words

_CLASSES = {
    "mqar": "MQAR", "ar": "AR", "copy": "Copy", "ngram": "NGram", "duplicates": "Duplicates", "position": "Position",
    "mixture": "Mixture", "induction": "Induction", "selective_copy": "SelectiveCopy", "noisy": "Noisy", "fuzzy": "Fuzzy",
    "compositional": "Compositional", "updating": "Updating", "words": "Words", "parity": "Parity", "modular": "Modular",
    "stacks": "Stacks", "hops": "Hops", "mad_recall": "MADRecall", "mad_noisy": "MADNoisy", "mad_fuzzy": "MADFuzzy",
    "mad_memorization": "MADMemorization", "mad_compression": "MADCompression", "mad_selective_copy": "MADSelectiveCopy",
}  # fmt: skip
"""The class of each task, by its kind, which is the name of its module too."""
_ELSEWHERE = {"mad_noisy": "mad_recall"}
"""The modules of tasks that are in the file of another."""

TASKS: "Registry[type[Task]]" = Registry(
    "task",
    group="recollect.tasks",
    base="recollect.tasks:Task",
    built_in={kind: f"{__name__}.{_ELSEWHERE.get(kind, kind)}:{cls}" for kind, cls in _CLASSES.items()},
)

__all__ = [
    "AR", "MQAR", "TASKS", "AnyTask", "Batch", "Compositional", "Copy", "Duplicates", "Fuzzy", "Hops", "Induction",
    "MADCompression", "MADFuzzy", "MADMemorization", "MADNoisy", "MADRecall", "MADSelectiveCopy", "Mixture",
    "Modular", "NGram", "Noisy", "Parity", "Position", "SelectiveCopy", "Stacks", "Task", "Updating", "Words",
    "as_task", "task_class",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """The classes, loaded when they are first used, since they import torch."""
    homes = {attribute: module for module, _, attribute in (name.partition(":") for name in TASKS.built_in.values())}
    homes |= dict.fromkeys(("Batch", "Task"), "recollect.tasks.base")
    homes |= dict.fromkeys(("AnyTask", "as_task", "task_class"), "recollect.tasks.spec")
    if name in homes:
        return getattr(importlib.import_module(homes[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
