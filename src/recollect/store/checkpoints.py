"""The folder of snapshots beside a store.

A file is a snapshot followed by the SHA-256 of all its bytes, so that one that was damaged is not believed.
"""

import hashlib
import json
import re
import warnings
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from recollect.spec import digest
from recollect.spec.faults import fault_point
from recollect.store.files import write_errors, write_whole
from recollect.train.checkpoint import Header, header_of

_ENDING = ".safetensors"
_OURS = re.compile(r"[0-9a-f]{16}\.(safetensors|draft)")
"""What files are called here: others belong to somebody else, and are left alone."""
_SUM = hashlib.sha256().digest_size
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError)
"""What `read_header` raises where a file is damaged."""


class Checkpoints:
    """A folder of snapshots: the newest of each run that has one. A file stays as long as a run may still need it."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.of: dict[str, Path] = {}
        self.steps: dict[str, int] = {}
        """At which step those were taken that an earlier process left."""

    def find(self, done: Iterable[str]) -> None:
        """Look for what an earlier process left; what can no longer serve is removed."""
        done, steps = set(done), dict[Path, int]()
        for path in snapshot_files(self.folder):
            try:
                header = read_header(path)
                runs, steps[path] = header.runs, header.step
            except UNREADABLE as error:
                if path.suffix == _ENDING:  # else a file that was being written
                    warnings.warn(f"checkpoint {path} cannot be read ({error}); its runs start anew", stacklevel=2)
                path.unlink(missing_ok=True)
                continue
            for run in runs:
                older = self.of.get(run)
                if run not in done and (older is None or steps[path] > steps[older]):
                    self.of[run], self.steps[run] = path, steps[path]
        for path in steps:
            self._sweep(path)
        self._drop_empty_folder()

    def load(self, run: str) -> bytes | None:
        """The newest snapshot with this run in it."""
        path = self.of.get(run)
        if path is None:
            return None
        if (data := _verified(path)) is not None:
            return data
        warnings.warn(f"checkpoint {path} is damaged (its checksum is wrong); its runs start anew", stacklevel=2)
        self.forget([other for other, place in self.of.items() if place == path])
        return None

    def save(self, runs: list[str], data: bytes) -> None:
        """Keep a snapshot of these runs, whole or not at all, and remove the older ones."""
        path = self.folder / f"{digest(sorted(runs))}{_ENDING}"
        with write_errors(self.folder):
            write_whole(path, data + hashlib.sha256(data).digest())
        for run in runs:
            older, self.of[run] = self.of.get(run), path
            self._sweep(older)

    def damaged(self) -> list[str]:
        """The names of the files that cannot be used."""
        return [path.name for path in snapshot_files(self.folder) if _verified(path) is None]

    def forget(self, runs: Iterable[str]) -> None:
        """These runs need no snapshot any more."""
        for run in runs:
            self._sweep(self.of.pop(run, None))

    def _sweep(self, path: Path | None) -> None:
        """Remove a file that no run needs, and the folder with the last."""
        if path is None or path in self.of.values():
            return
        fault_point("checkpoint: remove")
        path.unlink(missing_ok=True)
        fault_point("checkpoint: removed")
        self._drop_empty_folder()

    def _drop_empty_folder(self) -> None:
        with suppress(OSError):  # not empty, or not there
            self.folder.rmdir()


def snapshot_files(folder: Path) -> list[Path]:
    """The files of a folder that are called as snapshots are; others are left alone."""
    return [path for path in sorted(folder.glob("*")) if _OURS.fullmatch(path.name) and path.is_file()]


def _verified(path: Path) -> bytes | None:
    """The snapshot in a file, or None where its checksum is wrong."""
    found = path.read_bytes()
    return data if hashlib.sha256(data := found[:-_SUM]).digest() == found[-_SUM:] else None


def read_header(path: Path) -> Header:
    """What a file says about itself, without reading its tensors."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > path.stat().st_size:
            raise ValueError("it is not a snapshot")
        return header_of(json.loads(file.read(size)).get("__metadata__"))
