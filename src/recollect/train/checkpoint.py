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
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from safetensors import SafetensorError

from recollect.spec import explain

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


class Header(BaseModel):
    """What a snapshot says about itself; other types, and other lengths, are refused."""

    model_config = ConfigDict(strict=True)
    format: int
    step: int
    runs: list[str]
    """The ids of its members; the next three have an entry for each."""
    curves: list[list[dict[str, Any]]]
    slices: list[list[dict[str, Any]]]
    seconds: list[float]
    notes: list[str]
    vmapped: bool

    @model_validator(mode="after")
    def _fits(self) -> "Header":
        if self.format != _FORMAT:
            raise ValueError(f"format {self.format}, and this version of recollect reads {_FORMAT}")
        if {len(self.curves), len(self.slices), len(self.seconds)} != {len(self.runs)}:
            raise ValueError(f"its records are not those of {len(self.runs)} runs")
        return self


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
        rows = [header.runs.index(run.id) for run in cohort.runs]
        cohort.members.restore(saved, rows)
        cohort.records.restore(header, rows)
        cohort.records.album.restore(saved, rows)
        cohort.vmapped = cohort.vmapped and header.vmapped
        if not 0 < header.step < cohort.spec.total_steps:
            raise ValueError(f"step {header.step} is not one of a run of {cohort.spec.total_steps} steps")
        return header.step
    except (SafetensorError, ValueError, KeyError, TypeError, IndexError) as error:
        raise CheckpointError(f"{type(error).__name__}: {error}") from None


def runs_in(data: bytes) -> list[str]:
    """The ids of the runs of a snapshot."""
    return _header(data).runs


def _header(data: bytes) -> Header:
    size = int.from_bytes(data[:8], "little")
    return header_of(json.loads(data[8 : 8 + size]).get("__metadata__"))


def header_of(metadata: dict[str, str] | None) -> Header:
    """What the metadata of a snapshot's file says; a ValueError where that cannot be."""
    try:
        return Header.model_validate(json.loads((metadata or {})[_HEADER]))
    except ValidationError as error:
        raise ValueError(explain(error)[:200]) from None
