"""The folder of snapshots beside a store."""

import warnings
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from safetensors import SafetensorError, safe_open

from recollect.spec import digest
from recollect.store.files import write_errors, write_whole
from recollect.train.checkpoint import header_of

_ENDING = ".safetensors"


class Checkpoints:
    """A folder of snapshots: the newest of each run that has one. A file stays as long as a run may still need it."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.of: dict[str, Path] = {}

    def find(self, done: Iterable[str]) -> None:
        """Look for what an earlier process left; what can no longer serve is removed."""
        done, steps = set(done), dict[Path, int]()
        for path in sorted(self.folder.glob("*")):
            try:
                with safe_open(path, "pt") as file:
                    header = header_of(file.metadata())
                    runs, steps[path] = header["runs"], header["step"]
            except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
                if path.suffix == _ENDING:  # else a file that was being written
                    warnings.warn(f"checkpoint {path} cannot be read ({error}); its runs start anew", stacklevel=2)
                path.unlink(missing_ok=True)
                continue
            for run in runs:
                older = self.of.get(run)
                if run not in done and (older is None or steps[path] > steps[older]):
                    self.of[run] = path
        for path in steps:
            self._sweep(path)

    def load(self, run: str) -> bytes | None:
        """The newest snapshot with this run in it."""
        path = self.of.get(run)
        return path.read_bytes() if path else None

    def save(self, runs: list[str], data: bytes) -> None:
        """Keep a snapshot of these runs, whole or not at all, and let go of the older ones."""
        path = self.folder / f"{digest(sorted(runs))}{_ENDING}"
        with write_errors(self.folder):
            write_whole(path, data)
        for run in runs:
            older, self.of[run] = self.of.get(run), path
            self._sweep(older)

    def forget(self, runs: Iterable[str]) -> None:
        """These runs need no snapshot any more."""
        for run in runs:
            self._sweep(self.of.pop(run, None))

    def _sweep(self, path: Path | None) -> None:
        """Remove a file that no run needs, and the folder with the last."""
        if path is None or path in self.of.values():
            return
        path.unlink(missing_ok=True)
        with suppress(OSError):  # not empty
            self.folder.rmdir()
