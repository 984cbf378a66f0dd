"""What a store says of a run, besides its frames."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from recollect.train.spec import RunSpec


@dataclass(frozen=True)
class StoredRun:
    """A run that has ended."""

    id: str
    spec: str
    """Its specification, as JSON with every field."""
    model: str
    """The model's title."""
    status: str
    step: int
    """At which it ended."""
    seconds: float
    """Its share of its cohort's time."""
    device: str
    final: dict[str, float | None]
    """Every measure at its end; None for what was not finite."""

    @cached_property
    def run(self) -> "RunSpec":
        """The specification; its `id` is another than the stored one where its code or its meaning has changed since."""
        from recollect.train.spec import RunSpec  # brings torch along, which tables do not need

        return RunSpec.model_validate_json(self.spec)


class Failure(NamedTuple):
    """An attempt at a run that failed."""

    run: str
    attempt: int
    """How many attempts at it had failed with this one."""
    error: str
    """The error in one line."""
    traceback: str
    when: str
    """In UTC."""


class Slice(NamedTuple):
    """Answers by the values of one tag, at one measurement of a run."""

    step: int
    tag: str
    values: list[int]
    counts: list[int]
    """How many answers were scored, for each value."""
    right: list[int]
    """How many of them were right."""
