"""What a sink is: it receives the events of a study while it runs. The store stays the truth.

A sink that fails is left out from then on, with a warning: it never stops a study.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping

from recollect.spec import SpecError
from recollect.train.spec import RunSpec


class Sink(ABC):
    """Receives the events of a study. A subclass defines `event` and `close`, and is made from a target and the study's name."""

    @classmethod
    def start(cls, target: str, study: str) -> "Sink":
        """A sink that writes to `target`: a folder, a project, whatever its kind takes."""
        raise SpecError(f"{cls.__name__} cannot be opened by name")

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


class Callback(Sink):
    """A function as a sink."""

    def __init__(self, watch: Watch):
        self._watch = watch

    def event(self, cohort: list[RunSpec], event: object) -> None:
        """Call the function."""
        self._watch(cohort, event)

    def close(self) -> None:
        """A function needs no end."""


class Sinks:
    """Several sinks as one; use as a context manager."""

    def __init__(self, sinks: Iterable[Sink | Watch]):
        self._sinks = [sink if isinstance(sink, Sink) else Callback(sink) for sink in sinks]

    def begin(self, studies: Mapping[str, list[RunSpec]], done: Collection[str]) -> None:
        """Tell every sink what is about to be trained."""
        self._each("begin", studies, done)

    def event(self, cohort: list[RunSpec], event: object) -> None:
        """Tell every sink that still works."""
        self._each("event", cohort, event)

    def _each(self, method: str, *arguments: object) -> None:
        for sink in list(self._sinks):
            try:
                getattr(sink, method)(*arguments)
            except (Exception, SystemExit) as error:
                self._sinks.remove(sink)
                _warn(sink, error)

    def __enter__(self) -> "Sinks":
        return self

    def __exit__(self, *_: object) -> None:
        for sink in self._sinks:
            try:
                sink.close()
            except (Exception, SystemExit) as error:
                _warn(sink, error)


def missing(extra: str) -> SpecError:
    """The error that names the extra to install."""
    return SpecError(f'{extra} is not installed: pip install "recollect[{extra}]"')


def _warn(sink: Sink, error: BaseException) -> None:
    problem = f"{type(error).__name__}: {error}".splitlines()[0]
    warnings.warn(
        f"{type(sink).__name__} is left out from here on ({problem}); results are kept in the store", stacklevel=3
    )
