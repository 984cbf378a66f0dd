"""Warnings inside a worker process, kept from the screen."""

import warnings
from collections import deque

WARNING = 300
"""Characters of a warning at most."""


def collect_warnings() -> deque[str]:
    """The warnings of this process from now on, each in one line, instead of on the screen, where they would tear the progress
    display of the process that reports on training."""
    warned: deque[str] = deque()

    def collect(message: Warning | str, category: type[Warning], filename: str, line: int, *_: object) -> None:
        warned.append(f"{category.__name__}: {' '.join(str(message).split())[:WARNING]} ({filename}:{line})")

    warnings.showwarning = collect
    return warned
