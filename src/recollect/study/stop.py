"""A request to stop training: a signal, or the end of the time that the user gave.

The first signal only notes the request; whoever trains sees it within a step, takes a snapshot and ends. A second one ends the
process at once.
"""

import math
import os
import signal
import threading
import time
from types import FrameType
from typing import Any

from recollect.spec.apart import SIGNALS


class StopRequest:
    """Whether a stop was requested; use as a context manager, inside which signals are such requests."""

    def __init__(self, after: float = 0.0):
        self.why = ""
        """What ended training, as a message says it; empty until something does."""
        self.exit_code = 130
        """That of a command that is stopped: 130 by a signal, 75 ("try again") when the time is up."""
        self._after, self._until = after, time.monotonic() + after if after else math.inf
        self._before: dict[int, Any] = {}

    def __call__(self) -> bool:
        """Whether training should end now."""
        if not self.why and self.left() <= 0:
            self.why, self.exit_code = f"after {self._after:g} seconds, as requested", 75
        return bool(self.why)

    def left(self) -> float:
        """Seconds until the time that the user gave is up; infinite without one."""
        return self._until - time.monotonic()

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():  # elsewhere Python allows no handlers
            for number in SIGNALS:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):  # nohup has SIGHUP ignored
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _note(self, number: int, _: FrameType | None) -> None:
        self.why = f"by {signal.Signals(number).name}"
        self._restore()  # a second signal ends the process at once
        os.write(2, b"\nstopping: snapshots are being taken; Ctrl-C again ends at once\n")

    def _restore(self) -> None:
        while self._before:
            signal.signal(*self._before.popitem())
