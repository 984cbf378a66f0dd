"""What a Python user writes as plain data: classes, tasks, specifications, numpy arrays and ranges in a study."""

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch

from recollect.mixers import MIXERS
from recollect.mixers.spec import MixerSpec
from recollect.spec import Spec, SpecError
from recollect.spec.registry import Registry
from recollect.tasks import TASKS
from recollect.tasks.base import Task
from recollect.tasks.spec import as_task
from recollect.train.optimisers import OPTIMISERS
from recollect.train.optimisers.base import Optimiser
from recollect.train.schedules import SCHEDULES, Schedule

_CLASSES: tuple[tuple[type, Registry[Any]], ...] = (
    (torch.nn.Module, MIXERS),
    (Task, TASKS),
    (Optimiser, OPTIMISERS),
    (Schedule, SCHEDULES),
)


def plain(value: Any, path: str = "") -> Any:
    """The value as a study file would have it; an axis becomes a list."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        flat: dict[str, Any] = {}
        for key, item in value.items():
            if isinstance(item, Optimiser | Schedule):  # its fields stand beside its name
                flat |= {str(key): _name(type(item), path), **item.model_dump(mode="json", exclude_defaults=True)}
            else:
                flat[str(key)] = plain(item, f"{path}.{key}" if path else str(key))
        return flat
    if isinstance(value, np.ndarray | np.generic | pd.Series | pd.Index | torch.Tensor):
        return plain(value.tolist(), path)
    if isinstance(value, list | tuple | range | set | frozenset):
        return [plain(item, path) for item in (sorted(value) if isinstance(value, set | frozenset) else value)]
    if isinstance(value, torch.nn.Module):
        raise SpecError(
            f"{path}: give the class {type(value).__name__}, not a module made of it: every run makes its own"
        )
    if inspect.isclass(value):
        return _name(value, path)
    if isinstance(value, Optimiser | Schedule):  # a list has no place for its fields
        name = type(value).__name__
        raise SpecError(
            f"{path}: a list may have names and classes; {name}(..) needs a mapping of its own: train=[{{..}}, {{..}}]"
        )
    if isinstance(value, MixerSpec):
        return plain(value.model_dump(mode="json"), path)
    if isinstance(value, Task):
        return as_task(value).model_dump(mode="json", exclude_defaults=True)
    if isinstance(value, Spec):
        return plain(value.canonical(), path)
    raise SpecError(
        f"{path}: {value!r} is a {type(value).__name__}; give numbers, text, lists, mappings, classes or tasks"
    )


def _name(cls: type, path: str) -> str:
    """The name that finds a class in another process."""
    for base, registry in _CLASSES:
        if issubclass(cls, base):
            return registry.name(cls)
    raise SpecError(
        f"{path}: {cls.__name__} is neither a mixer (an nn.Module), nor a task, nor an optimiser, nor a schedule"
    )
