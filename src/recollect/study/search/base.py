"""What a search is: a strategy that names the runs of a grid to train next, given the results so far."""

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from recollect.analysis.window import THRESHOLD
from recollect.spec import Spec, SpecError, nearest
from recollect.study.search import SEARCHES
from recollect.train.spec import RunSpec


class Search(Spec):
    """Decides which runs of a study's grid are trained. A subclass has fields, and defines `wanted`.

    Its decisions depend on its arguments alone, so that a search that was interrupted, or that finds runs in the store, asks
    for the same runs as any other.
    """

    kind: str
    """The search's name, or `module:Name` or `file.py:Name` of your own."""
    threshold: float = Field(default=THRESHOLD, gt=0, le=1)
    """The accuracy that tables and pictures of the study count as solved."""

    @abstractmethod
    def wanted(self, runs: Sequence[RunSpec], accuracy: Mapping[str, float], failed: Collection[str]) -> list[RunSpec]:
        """Every run of the grid that the search has asked for so far, those of the next round included.

        `accuracy` holds the final accuracy, by run id, of the runs that have ended (NaN: the run diverged before it was
        measured); `failed` the ids of runs that failed for good. The search ends when every wanted run has ended or failed.
        """

    def likely(self, runs: Sequence[RunSpec], accuracy: Mapping[str, float]) -> dict[str, float]:
        """The runs that the search will probably ask for after its present round, by id, and how probable that is: a GPU whose
        cohort has room trains them ahead. They must change no decision of the search."""
        return {}

    def axes(self) -> dict[str, tuple[list[Any], tuple[str, ...]]]:
        """The axes that the search provides where the study does not have them: by path, the values and the fields of the
        search that give them."""
        return {}

    def found(self, runs: Sequence[RunSpec], accuracy: Mapping[str, float]) -> dict[str, Any]:
        """What the search knows, by configuration: records of one dataclass."""
        return {}

    def left(self, runs: Sequence[RunSpec], accuracy: Mapping[str, float]) -> list[RunSpec]:
        """The most runs that the search may still train: what a plan counts."""
        return [run for run in runs if run.id not in accuracy]

    def describe(self, found: Mapping[str, Any]) -> str:
        """What was found, in a few words."""
        return f"{len(found)} configurations"


@dataclass(frozen=True)
class Searched:
    """The result of a search."""

    found: dict[str, Any]
    """The findings of the search, by configuration."""
    asked: list[RunSpec]
    """Every run that the search asked for."""
    reused: int
    """How many of them the store had before."""
    grid: int
    """How many runs the whole grid has."""
    line: str
    """The search in one line."""


def as_search(value: Any) -> Search | None:
    """A search from a search, a name (all defaults) or a mapping with `kind`."""
    if value is None or isinstance(value, Search):
        return value
    if isinstance(value, str):
        value = {"kind": value}
    if not isinstance(value, Mapping):
        raise SpecError(f"a search is a name or a mapping with a `kind`, got {value!r}: {nearest('', SEARCHES)}")
    kind = str(value.get("kind", "window"))
    return SEARCHES.find(kind).model_validate({**value, "kind": kind})
