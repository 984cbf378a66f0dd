"""What becomes of every field of a file of Zoology, written down as it is translated."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from recollect.importing.script import Made
from recollect.importing.tables import DATA_UNUSED, NO_EFFECT, NOT_MAPPED, TASK_UNUSED, TRAIN_UNUSED, ZOOLOGY_DEFAULTS

Fields = dict[str, Any]


class LeftOut(Exception):
    """A run that cannot be written as one of ours."""


@dataclass
class Fates:
    """What became of every field, by its path in Zoology: one line for each different fate."""

    lines: dict[str, dict[str, None]] = field(default_factory=dict)

    def note(self, path: str, value: Any, fate: str) -> None:
        """Write down what became of a field."""
        self.lines.setdefault(path, {})[fate.replace(NOT_MAPPED, f"{NOT_MAPPED}, {value!r}", 1)] = None

    @property
    def not_mapped(self) -> list[str]:
        """The fields that could not be mapped, with their values."""
        every = [(path, fate) for path, fates in self.lines.items() for fate in fates]
        return [f"{path}: {fate}" for path, fate in every if fate.startswith(NOT_MAPPED)]

    def fields(self, value: Any, kind: str, path: str) -> Fields:
        """The fields of a Made or a mapping, with Zoology's defaults; bookkeeping fields are noted and dropped."""
        own = dict(value.fields if isinstance(value, Made) else value or {})
        unused = {"train": TRAIN_UNUSED, "data": DATA_UNUSED, "task": TASK_UNUSED}.get(kind, ())
        for name in [name for name in own if name in unused]:
            self.note(f"{path}.{name}", own.pop(name), NO_EFFECT)
        return ZOOLOGY_DEFAULTS.get(kind, {}) | own

    def take(self, own: Fields, path: str, name: str, fate: str, default: Any = None) -> Any:
        """The value of a field, taken out of `own`, whose fate is written down."""
        self.note(f"{path}.{name}", None, fate)
        return own.pop(name, default)

    def rename(self, own: Fields, names: Mapping[str, str], path: str, target: str) -> Fields:
        """The fields that have a name here, taken out of `own`."""
        renamed = {}
        for name in [name for name in own if name in names]:
            renamed[names[name]] = self.take(own, path, name, f"{target}.{names[name]}")
        return renamed

    def rest(self, own: Fields, same: Mapping[str, Any], path: str) -> None:
        """Note what is left: a value at which both are the same has no effect, any other is not mapped."""
        for name, value in own.items():
            self.note(f"{path}.{name}", value, "the same here" if name in same and same[name] == value else NOT_MAPPED)
