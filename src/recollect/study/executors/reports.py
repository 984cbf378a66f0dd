"""What an executor reports of a cohort, besides the events of its training."""

import traceback
from dataclasses import dataclass
from typing import Literal

from recollect.spec import SpecError
from recollect.spec.errors import line_of
from recollect.train.checkpoint import CheckpointError
from recollect.train.cohort import out_of_memory
from recollect.train.events import Event

ERROR = 500
"""The most characters of an error in one line; the traceback has all."""


@dataclass
class Done:
    """The last report: all members have ended."""


@dataclass
class Broken:
    """The last report: the cohort failed."""

    why: Literal["error", "memory", "snapshot", "lost", "timeout"]
    """An exception; too little memory; a snapshot that does not fit; the process or machine that trained it died; or it was
    killed because it took longer than the user allows."""
    error: str
    """In one line."""
    traceback: str
    fits: int = 0
    """How many runs memory would hold, where that was measured."""

    @classmethod
    def by(cls, error: BaseException) -> "Broken":
        """What became of a cohort that raised."""
        why = "memory" if out_of_memory(error) else "snapshot" if isinstance(error, CheckpointError) else "error"
        text = str(error) if isinstance(error, SpecError) else f"{type(error).__name__}: {error}"
        text = text.splitlines()[0][:ERROR] + line_of(error)
        return cls(why, text, "".join(traceback.format_exception(error)))

    @classmethod
    def late(cls, timeout: float) -> "Broken":
        """What became of a cohort that was killed after so many seconds."""
        error = f"no end after {timeout:g} seconds (--timeout): its worker was killed"
        return cls("timeout", error, error)


@dataclass
class Silent:
    """The cohort has not reported for this many seconds; it may be stuck, or at a long measurement."""

    seconds: float


@dataclass
class Began:
    """The cohort, which had to wait for a process or a place in a cluster, has it now."""


@dataclass
class Warned:
    """A library warned the process that trains the cohort."""

    text: str
    """In one line."""


@dataclass
class Halted:
    """The last report: the cohort was stopped, and has sent a snapshot; or it did not answer in time."""


Report = Event | Done | Broken | Silent | Began | Warned | Halted
LAST = (Done, Broken, Halted)
"""The reports after which no more come."""
