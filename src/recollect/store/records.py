"""What a store says of a run, besides its frames."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

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
        from recollect.train.spec import RunSpec  # brings torch along, which tables do not need

        try:
            return RunSpec.model_validate_json(self.spec)
        except SpecError as error:
            raise SpecError(f"run {self.id}: {error}") from None


_parsed = json.JSONDecoder(parse_constant=lambda _: None).decode
"""Plain data from JSON; None for NaN and infinities, which JSON does not have."""


def mappings(texts: Sequence[str]) -> list[dict[str, Any]]:
    """The mappings that JSON texts hold, parsed in one go, which takes half the time."""
    found = _parsed(f"[{','.join(texts)}]")
    if len(found) != len(texts) or not all(isinstance(record, dict) for record in found):
        raise ValueError("a measurement is not a mapping")
    return found


def measures(texts: Sequence[str]) -> list[dict[str, float | None]]:
    """The measures by name that each JSON text holds; None for what was not finite."""
    records = mappings(texts)
    if any(not isinstance(value, int | float | None) for record in records for value in record.values()):
        raise ValueError("measures are not numbers by name")
    return records


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
