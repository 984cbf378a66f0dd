"""What a source states, as data: its models, and what it leaves unstated. Its file has its training, too: `protocol`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

Fields = dict[str, Any]


class AnyTask(Protocol):
    """What a protocol may depend on: the kind of a task, and the tokens in a row."""

    @property
    def kind(self) -> str: ...
    @property
    def row_length(self) -> int: ...


class Unknown(NamedTuple):
    """Something that a source does not state."""

    name: str
    """The field of a run's specification, or a description where no field has it."""
    chosen: str
    why: str
    control: str = ""
    """The item of the paper that shows whether it matters, where there is one."""
    short: str = ""
    """The choice in a few words, for captions; empty: left out of them."""


@dataclass(frozen=True)
class Source:
    """A paper with its released code."""

    name: str
    title: str
    presets: Mapping[str, Fields] = field(default_factory=dict)
    """The fields of `model` for each of its models by name."""
    sized: str = ""
    """The first word of presets `WORD-MIXER-WIDTHxLAYERS`, for a source that tries many mixers and sizes."""
    unknown: tuple[Unknown, ...] = ()


def chosen_text(unknown: Iterable[Unknown]) -> str:
    """A sentence for captions: the choices that no source states."""
    return f"Not stated, so chosen: {', '.join(one.short for one in unknown if one.short)}."
