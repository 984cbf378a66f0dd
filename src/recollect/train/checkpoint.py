"""Snapshots of a cohort in training, so that a crash costs a minute and not the whole cohort.

A snapshot holds the whole state of a cohort: step, parameters, the optimiser's state, running sums, curves, slices, seconds,
notes, and the embeddings held so far where a run keeps them.
There is no generator to save, as all randomness is a stateless hash of (seed, purpose, step, row). It is a safetensors
file with JSON in its header, the members on axis 0 of every tensor and on the CPU, so training can continue on any device, and
any of its members can continue without the others.
"""

import json
from typing import TYPE_CHECKING, Any

import safetensors.torch
from safetensors import SafetensorError

if TYPE_CHECKING:
    from recollect.train.cohort import Cohort

EVERY = 60.0
"""Seconds between snapshots of a cohort: what a crash may cost."""
SHARE = 0.05
"""The share of the time that snapshots may take: large models are saved less often."""
_FORMAT = 1
_HEADER = "recollect"


class CheckpointError(Exception):
    """A snapshot that does not fit the cohort, or cannot be read."""


def snapshot(cohort: "Cohort", step: int) -> bytes:
    """The cohort after so many steps."""
    members, records = cohort.members, cohort.records
    records.charge()
    tensors = members.tensors() | records.album.tensors()
    rows = {name: tensor[: len(members)].cpu().contiguous() for name, tensor in tensors.items()}
    runs = [run.id for run in cohort.runs]
    header = {"format": _FORMAT, "step": step, "runs": runs, **records.data(), "vmapped": cohort.vmapped}
    return safetensors.torch.save(rows, {_HEADER: json.dumps(header)})


def restore(cohort: "Cohort", data: bytes) -> int:
    """Load the state of the snapshot's members of the same names into a new cohort; returns the number of steps done."""
    try:
        saved, header = safetensors.torch.load(data), _header(data)
        rows = [header["runs"].index(run.id) for run in cohort.runs]
        cohort.members.restore(saved, rows)
        cohort.records.restore(header, rows)
        cohort.records.album.restore(saved, rows)
        cohort.vmapped = cohort.vmapped and header["vmapped"]
        if not 0 < header["step"] < cohort.spec.total_steps:
            raise ValueError(f"step {header['step']} is not one of a run of {cohort.spec.total_steps} steps")
        return header["step"]
    except (SafetensorError, ValueError, KeyError, TypeError, IndexError) as error:
        raise CheckpointError(f"{type(error).__name__}: {error}") from None


def runs_in(data: bytes) -> list[str]:
    """The ids of the runs of a snapshot."""
    return _header(data)["runs"]


def _header(data: bytes) -> dict[str, Any]:
    size = int.from_bytes(data[:8], "little")
    return header_of(json.loads(data[8 : 8 + size]).get("__metadata__"))


def header_of(metadata: dict[str, str] | None) -> dict[str, Any]:
    """What the metadata of a snapshot's file says: its step, its runs and their records."""
    header = json.loads((metadata or {})[_HEADER])
    if header["format"] != _FORMAT:
        raise ValueError(f"format {header['format']}, and this version of recollect reads {_FORMAT}")
    return header
