"""Output files: written whole or not at all, and the error where they cannot be written."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recollect.spec.errors import SpecError


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A file beside `path` to write to. When that is done without an error it takes the place of `path`; else it is removed, and
    what was at `path` stays. An error of the file system becomes one line."""
    with output_errors(path):
        target = path.resolve()  # through a link, the file that it names is written
        if target.is_dir():
            raise SpecError(f"cannot write {path}: it is a folder")
        if not target.parent.is_dir():
            raise SpecError(f"cannot write {path}: there is no folder {path.parent}")
        if target.exists() and not target.is_file():  # a device or a pipe
            yield target
            return
        draft = target.with_name(f".draft-{os.getpid()}{target.suffix}")
        try:
            yield draft
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)


@contextmanager
def output_errors(path: Path) -> Iterator[None]:
    """Turns what a full, read-only or failing disk raises into one line that says what could not be written."""
    try:
        yield
    except OSError as error:
        raise SpecError(f"cannot write {path}: {error.strerror or error}") from None
