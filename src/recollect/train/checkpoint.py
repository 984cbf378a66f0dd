"""Snapshots of a cohort in training, so that a stop costs a minute and not the cohort.

A snapshot holds all that a cohort is: step, parameters, both moments, running tallies, curves, slices, seconds, notes, and the
embeddings held so far where a run keeps them.
There is no generator to save, as all randomness is a stateless hash of (seed, purpose, step, row). It is a safetensors
file with JSON in its header, the members on axis 0 of every tensor and on the CPU, so it goes on on any device, and any
of its members can go on without the others.
"""

import json
from typing import TYPE_CHECKING, Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

if TYPE_CHECKING:
    from recollect.train.cohort import Cohort

EVERY = 60.0
"""Seconds between snapshots of a cohort: what a stop may cost."""
_FORMAT = 1
_HEADER = "recollect"


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
        header = header_of(json.loads(data[8 : 8 + size]).get("__metadata__"))
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


def header_of(metadata: dict[str, str] | None) -> dict[str, Any]:
    """What the metadata of a snapshot's file says: its step, its runs and their records."""
    header = json.loads((metadata or {})[_HEADER])
    if header["format"] != _FORMAT:
        raise ValueError(f"format {header['format']}, and this version of recollect reads {_FORMAT}")
    return header
