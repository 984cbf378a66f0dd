"""Snapshots of a cohort in training, so that a stop costs a minute and not the cohort.

A snapshot holds all that a cohort is: step, parameters, both moments, running tallies, curves, slices, seconds, notes, and the
embeddings held so far where a run keeps them.
There is no generator to save, as all randomness is a stateless hash of (seed, purpose, step, row). It is a safetensors
file with JSON in its header, the members on axis 0 of every tensor and on the CPU, so it goes on on any device, and any
of its members can go on without the others.
"""

import json
import os
import warnings
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import safetensors.torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from recollect.spec import digest

if TYPE_CHECKING:
    from recollect.train.cohort import Cohort

EVERY = 60.0
"""Seconds between snapshots of a cohort: what a stop may cost."""
_FORMAT = 1
_HEADER = "recollect"
_ENDING = ".safetensors"


class CheckpointError(Exception):
    """A snapshot that does not fit the cohort, or cannot be read."""


def snapshot(cohort: "Cohort", step: int) -> bytes:
    """The cohort after so many steps."""
    cohort.charge()
    members = len(cohort.runs)  # a lone member's copy is not kept
    named = _tensors(cohort) | cohort.album.tensors()
    tensors = {name: tensor[:members].cpu().contiguous() for name, tensor in named.items()}
    header = {
        "format": _FORMAT, "step": step, "runs": [run.id for run in cohort.runs], "curves": cohort.curves,
        "slices": cohort.slices, "seconds": cohort.seconds, "notes": cohort.notes, "vmapped": cohort.vmapped,
    }  # fmt: skip
    return safetensors.torch.save(tensors, {_HEADER: json.dumps(header)})


def restore(cohort: "Cohort", data: bytes) -> int:
    """Put a new cohort where the snapshot's members of the same names were; gives the number of steps done."""
    try:
        saved = safetensors.torch.load(data)
        size = int.from_bytes(data[:8], "little")
        header = _header(json.loads(data[8 : 8 + size]).get("__metadata__"))
        places = [header["runs"].index(run.id) for run in cohort.runs]
        copied = places if len(places) != 1 else places * 2  # a cohort is never of one
        for name, tensor in _tensors(cohort).items():
            tensor.copy_(_checked(saved, name, tensor)[copied])
        cohort.album.restore(saved, copied)
        cohort.curves = [header["curves"][i] for i in places]
        cohort.slices = [header["slices"][i] for i in places]
        cohort.seconds = [header["seconds"][i] for i in places]
        cohort.notes, cohort.vmapped = header["notes"], header["vmapped"]
        return header["step"]
    except (SafetensorError, ValueError, KeyError, TypeError, IndexError) as error:
        raise CheckpointError(f"{type(error).__name__}: {error}") from None


def _tensors(cohort: "Cohort") -> dict[str, Tensor]:
    groups = {"params": cohort.params, "mean": cohort.mean, "square": cohort.square}
    named = {f"{group}.{name}": x for group, tensors in groups.items() for name, x in tensors.items()}
    return {**named, "sums": cohort.sums}


def _checked(saved: dict[str, Tensor], name: str, like: Tensor) -> Tensor:
    found = saved[name]
    if found.dtype != like.dtype or found.shape[1:] != like.shape[1:]:
        raise ValueError(f"{name} is {found.dtype} {tuple(found.shape)} and should be {like.dtype} {tuple(like.shape)}")
    return found


def _header(metadata: dict[str, str] | None) -> dict[str, Any]:
    header = json.loads((metadata or {})[_HEADER])
    if header["format"] != _FORMAT:
        raise ValueError(f"format {header['format']}, and this version of recollect reads {_FORMAT}")
    return header


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
                    header = _header(file.metadata())
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


def write_whole(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, so that it lasts through a loss of power."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def _sync(folder: Path) -> None:
    """Make a rename last through a loss of power."""
    if hasattr(os, "O_DIRECTORY"):
        place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(place)
        finally:
            os.close(place)
