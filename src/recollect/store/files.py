"""Files that are written whole or not at all, and the error where they cannot be written."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from recollect.spec import UserError
from recollect.spec.faults import fault_point


class StoreError(UserError):
    """A store that cannot be used: the message says which, and why."""


class StoreBusy(StoreError):
    """Another process writes to the store."""

    exit_code = 3


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Turns what a full or failing disk raises into a message that says where room is needed and what was kept."""
    try:
        yield
    except (sqlite3.DatabaseError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise StoreError(
            f"cannot write to {path} ({reason}); what was kept is whole, and the same command continues from there"
        ) from error


@contextmanager
def read_errors(path: Path) -> Iterator[None]:
    """Turns what a damaged store, or one that cannot be reached, raises into a message that says what is wrong."""
    try:
        yield
    except UserError:
        raise
    except (sqlite3.Error, OSError) as error:
        hint = "; `recollect check` says more" if isinstance(error, sqlite3.DatabaseError) else ""
        raise StoreError(f"cannot read {path}: {_line(error)}{hint}") from error
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, SafetensorError) as error:
        raise StoreError(
            f"{path} has a row that cannot be read ({_line(error)}); `recollect check` says more"
        ) from error


def _line(error: Exception) -> str:
    """An error in one short line, of which a damaged file may have given the letters."""
    text = " ".join("".join(letter if letter.isprintable() else " " for letter in str(error)).split())
    return text[:200] if isinstance(error, sqlite3.Error | OSError) else f"{type(error).__name__}: {text[:200]}"


def write_whole(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, so that it lasts through a loss of power."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    try:
        fault_point("file: write")
        draft.unlink(missing_ok=True)
        with draft.open("xb") as file:  # not through a link that somebody put there
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fault_point("file: rename")
        draft.replace(path)
        fault_point("file: renamed")
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def _sync(folder: Path) -> None:
    """Make a rename last through a loss of power."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
