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
        "words": "recollect.tasks.words:Words",
        "parity": "recollect.tasks.parity:Parity",
        "modular": "recollect.tasks.modular:Modular",
        "stacks": "recollect.tasks.stacks:Stacks",
        "hops": "recollect.tasks.hops:Hops",
        "mad_recall": "recollect.tasks.mad_recall:MADRecall",
        "mad_noisy": "recollect.tasks.mad_recall:MADNoisy",
        "mad_fuzzy": "recollect.tasks.mad_fuzzy:MADFuzzy",
        "mad_memorization": "recollect.tasks.mad_memorization:MADMemorization",
        "mad_compression": "recollect.tasks.mad_compression:MADCompression",
        "mad_selective_copy": "recollect.tasks.mad_selective_copy:MADSelectiveCopy",
    },
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
