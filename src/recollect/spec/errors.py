"""Errors that a user can fix. Nothing heavy is imported here, so that the command line can refuse a word immediately."""

import difflib
import traceback
from collections.abc import Iterable
from pathlib import Path

from recollect.spec.imports import is_installed, shown


class UserError(Exception):
    """An error that a user can fix: the command line prints its message in one line and ends with its exit code."""

    exit_code = 2


class SpecError(UserError, ValueError):
    """An invalid specification: the message names the value and what is allowed."""


class Stopped(UserError):
    """Training that was stopped on request, with all of its work saved: the same command continues from there."""

    def __init__(self, message: str, exit_code: int = 130):
        super().__init__(message)
        self.exit_code = exit_code


def line_of(error: BaseException, any_code: bool = False) -> str:
    """Where an error arose in code of a user's own, as ` (mixers.py:12)`: the innermost line of its traceback that belongs
    neither to recollect nor to Python or an installed package. Where there is none: empty, or with `any_code` the innermost."""
    lines = [(Path(frame.f_code.co_filename), line) for frame, line in traceback.walk_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        lines.append((Path(error.filename), error.lineno or 0))
    for path, line in reversed(lines):
        if not (str(path).startswith("<") or path.is_relative_to(Path(__file__).parents[1]) or is_installed(path)):
            return f" ({shown(path) if path.is_relative_to(Path.cwd()) else path.name}:{line})"
    return f" ({lines[-1][0]}:{lines[-1][1]})" if any_code and lines else ""


def nearest(word: str, choices: Iterable[str]) -> str:
    """What to add to an error about an unknown `word`: the nearest choice, then all of them."""
    choices = sorted(choices)
    if not choices:
        return "there are none"
    close = difflib.get_close_matches(word, choices, n=1)
    return (f"did you mean {close[0]!r}? " if close else "") + "choose from: " + ", ".join(choices)
