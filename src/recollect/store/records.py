"""What a store says of a run, besides its frames."""

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from recollect.spec import SpecError
from recollect.spec.source import untrusted

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
        """The specification; its `id` is another than the stored one where its code or its meaning has changed since. Code of
        which only the store says that it belongs to the run is not imported (see `trusted`)."""
        with untrusted():
            return self.trusted

    @cached_property
    def trusted(self) -> "RunSpec":
        """The specification, with any code that it names imported."""
        from pydantic import ValidationError

        from recollect.spec import explain
        from recollect.train.spec import RunSpec  # brings torch along, which tables do not need

        try:
            return RunSpec.model_validate_json(self.spec)
        except ValidationError as error:
            raise SpecError(f"run {self.id}: {explain(error)}") from None


parsed = json.JSONDecoder(parse_constant=lambda _: None).decode
"""Plain data from JSON; None for NaN and infinities, which JSON does not have."""


def numbers(text: str) -> dict[str, float | None]:
    """Measures by name, as JSON; None for what was not finite."""
    found = parsed(text)
    if not isinstance(found, dict) or not all(
        value is None or isinstance(value, int | float) for value in found.values()
    ):
        raise ValueError(f"{text[:60]!r} are not measures by name")
    return found


def check_provenance(name: str, text: str) -> None:
    """Refuse JSON that is not, for `versions`, a mapping, or for `notes`, a list of texts."""
    found = json.loads(text)
    if not (isinstance(found, dict) if name == "versions" else isinstance(found, list)):
        raise ValueError(f"{name} {text[:60]!r} are not a {'mapping' if name == 'versions' else 'list'}")
    if not all(isinstance(item, str) for item in found):
        raise ValueError(f"{name} {text[:60]!r} are not texts")


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


class FailedRun(NamedTuple):
    """A run that failed for good."""

    run: str
    attempts: int
    """How many attempts at it failed."""
    error: str
    """The error of the last, in one line."""
