"""Points at which tests end the program, as a loss of power does: before and after writes, renames, commits and messages."""

import os
import signal
from collections import Counter
from pathlib import Path

VARIABLE = "RECOLLECT_FAULT"
"""`POINT@FILE` ends the process at that point, once: FILE is made then. `@FILE` writes the names of all points passed to FILE."""
_passed: Counter[str] = Counter()


def fault_point(name: str) -> None:
    """Do nothing, unless the environment variable names this point: its name and how often it was passed, as in `commit#3`."""
    plan = os.environ.get(VARIABLE)
    if not plan:
        return
    _passed[name] += 1
    point = f"{name}#{_passed[name]}"
    wanted, _, file = plan.partition("@")
    if not wanted:
        with Path(file).open("a") as names:
            names.write(f"{point}\n")
    elif wanted == point and not Path(file).exists():
        Path(file).touch()
        os.kill(os.getpid(), signal.SIGKILL)
