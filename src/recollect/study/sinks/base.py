"""What a sink is: it receives the events of a study while it runs. The store stays the truth.

A sink that fails is left out from then on, with a warning: it never stops a study.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping

from recollect.spec import SpecError
from recollect.train.spec import RunSpec


class Sink(ABC):
    """Receives the events of a study. A subclass defines `event` and `close`; one that has a name is made from a target, such as
    a folder or a project, and the study's name."""

    def begin(self, studies: Mapping[str, list[RunSpec]], done: Collection[str]) -> None:  # noqa: B027 (few need it)
        """Training of these runs, by study, begins; those in `done`, by id, have ended before."""

    @abstractmethod
    def event(self, cohort: list[RunSpec], event: object) -> None:
        """Something happened to a cohort; events that a sink does not know are none of its business."""

    @abstractmethod
    def close(self) -> None:
        """No more events come."""


Watch = Callable[[list[RunSpec], object], None]
"""A function that is called with every event, and with the cohort it belongs to."""


class Sinks:
    """Several sinks and functions as one; use as a context manager."""

    def __init__(self, sinks: Iterable[Sink | Watch]):
        self._sinks = list(sinks)

    def begin(self, studies: Mapping[str, list[RunSpec]], done: Collection[str]) -> None:
        """Pass on to every sink what is about to be trained."""
        self._each("begin", studies, done)

    def event(self, cohort: list[RunSpec], event: object) -> None:
        """Pass an event on to every sink that still works."""
        self._each("event", cohort, event)

    def _each(self, method: str, *arguments: object) -> None:
        for sink in list(self._sinks):
            try:
                if isinstance(sink, Sink):
                    getattr(sink, method)(*arguments)
                elif method == "event":
                    sink(*arguments)  # pyright: ignore[reportArgumentType]
            except (Exception, SystemExit) as error:
                self._sinks.remove(sink)
                problem = f"{type(error).__name__}: {error}".splitlines()[0]
                left_out = f"{type(sink).__name__} is left out from here on ({problem})"
                warnings.warn(f"{left_out}; results are kept in the store", stacklevel=3)

    def __enter__(self) -> "Sinks":
        return self

    def __exit__(self, *_: object) -> None:
        self._each("close")


def missing(extra: str) -> SpecError:
    """The error that names the extra to install."""
    return SpecError(f'{extra} is not installed: pip install "recollect[{extra}]"')
