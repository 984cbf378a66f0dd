"""The members of a cohort as stacked tensors: parameters, optimiser state and numbers, axis 0 the member.

A batched product of one matrix differs in its last bits from one of several, so a single run that is trained by vmap is paired
with a copy of itself. Compiled code works for one number of members only, so the rows of runs that end are filled with copies
too. The first `len(members)` rows of every tensor are the runs; the rows after them are never read.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Self

import torch
from torch import Tensor

from recollect.train.device import sum_dtype
from recollect.train.groups import factors_of
from recollect.train.optimisers.base import Group, Parameters
from recollect.train.spec import RunSpec

_SECTIONS = ("params", "sums", "album")
"""Names in a checkpoint that an optimiser's state may not use."""


class Members:
    """Runs in training: `len(members)` of them, in `places` rows of every tensor."""

    def __init__(self, runs: Sequence[RunSpec], starts: Mapping[int, Parameters], device: torch.device, least: int = 2):
        """`starts` has the initial parameters by seed; `least` is the smallest number of rows that is computed with."""
        self.runs, self.least = list(runs), least
        self.optimiser = runs[0].train.built_optimiser
        self._views: list[Self] = []
        seeds, specs = list(starts), [run.train for run in self._with_copies(runs, 0)]
        self.seeds = torch.tensor(seeds, device=device)  # (seeds,), of all runs at the start
        self.seed_of = torch.tensor([seeds.index(spec.seed) for spec in specs], device=device)  # (places,)
        self.params: Parameters = {
            name: torch.stack([start[name] for start in starts.values()])[self.seed_of] for name in starts[seeds[0]]
        }
        self.state = self.optimiser.start(self.params)
        if taken := self.state.keys() & set(_SECTIONS):
            raise ValueError(f"{type(self.optimiser).__name__}: no part of its state can be called {taken.pop()!r}")
        optimisers = [spec.built_optimiser for spec in specs]
        numbers = {name: [getattr(one, name) for one in optimisers] for name in self.optimiser.per_member()}
        columns = {name: [getattr(spec, name) for spec in specs] for name in ("lr", "clip", "z_loss")} | numbers
        dtype = sum_dtype(device)
        self.columns = {name: torch.tensor(x, dtype=dtype, device=device) for name, x in columns.items()}
        self.factors = [
            (names, {name: torch.tensor(x, dtype=dtype, device=device) for name, x in factors.items()})
            for names, factors in factors_of(self._with_copies(runs, 0), list(self.params))
        ]
        self.clips = any(spec.clip for spec in specs)
        self.sums = torch.zeros(len(specs), 4, dtype=dtype, device=device)  # of steps, losses, hits, norms

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def places(self) -> int:
        """How many rows the tensors have, copies included."""
        return len(self.seed_of)

    def groups(self, factor: float | Tensor = 1.0, clip: Tensor | None = None) -> list[Group]:
        """Every member's numbers, given the schedule's factor and, where the optimiser clips the gradients, what it clips by."""
        numbers = {name: column for name, column in self.columns.items() if name not in ("clip", "z_loss")}
        numbers["lr"] = numbers["lr"] * factor
        if clip is not None:
            numbers["clip"] = clip
        return [
            Group(names, numbers | {name: numbers[name] * x for name, x in factors.items()}, self.clips)
            for names, factors in self.factors
        ]

    def clip(self, norms: Tensor) -> Tensor:
        """The factor that brings each member's gradients, whose norms these are, to at most the norm it allows: (places,)."""
        largest = self.columns["clip"]
        return torch.where(largest > 0, (largest / (norms + 1e-6)).clamp(max=1.0), 1.0)

    def evaluated(self) -> Parameters:
        """The parameters to measure and to save, the runs on the first rows."""
        return self.optimiser.evaluated(self.params, self.state, self.groups())

    def rows(self, chosen: Sequence[int]) -> Tensor:
        """The rows of some runs, to compute with: at least `least`."""
        return torch.tensor(self._with_copies(chosen, 0), dtype=torch.int64, device=self.seed_of.device)

    def each(self) -> list[Self]:
        """Every run as members of its own, whose tensors are views of one row of these."""
        if len(self._views) != len(self):
            self._views = [self._view(i) for i in range(len(self))]
        return self._views

    def _view(self, i: int) -> Self:
        member, row = copy.copy(self), slice(i, i + 1)
        member.runs, member.seed_of, member.sums = self.runs[row], self.seed_of[row], self.sums[row]
        member.params, member.columns = _rows(self.params, row), _rows(self.columns, row)
        member.factors = [(names, _rows(factors, row)) for names, factors in self.factors]
        member.state = {name: _rows(tensors, row) for name, tensors in self.state.items()}
        return member

    def select(self, stay: Sequence[int], places: int = 0) -> None:
        """Keep these runs only; the tensors then have at least `places` rows."""
        self.runs = [self.runs[i] for i in stay]
        index = torch.tensor(self._with_copies(stay, places), dtype=torch.int64, device=self.seed_of.device)
        self._views = []
        for tensors in (self.params, self.columns, *self.state.values(), *(factors for _, factors in self.factors)):
            for name in tensors:
                tensors[name] = tensors[name][index]
        self.seed_of, self.sums = self.seed_of[index], self.sums[index]

    def tensors(self) -> dict[str, Tensor]:
        """All tensors that training changes, by their names in a checkpoint."""
        groups = {"params": self.params, **self.state}
        named = {f"{group}.{name}": tensor for group, tensors in groups.items() for name, tensor in tensors.items()}
        return {**named, "sums": self.sums}

    def restore(self, saved: Mapping[str, Tensor], rows: Sequence[int]) -> None:
        """Load all of them from these rows of a checkpoint."""
        for name, tensor in self.tensors().items():
            rows_saved = saved[name]
            if rows_saved.dtype != tensor.dtype or rows_saved.shape[1:] != tensor.shape[1:]:
                raise ValueError(
                    f"{name} is {rows_saved.dtype} {tuple(rows_saved.shape)} and should be {tensor.dtype} {tuple(tensor.shape)}"
                )
            tensor.copy_(rows_saved[self._with_copies(rows, self.places)])

    def _with_copies(self, chosen: Sequence, places: int) -> list:
        """`chosen`, then copies of its first until there are `places`, and at least `least`."""
        return [*chosen, *[chosen[0]] * (max(places, self.least) - len(chosen))] if chosen else []


def _rows(tensors: Parameters, rows: slice) -> Parameters:
    return {name: tensor[rows] for name, tensor in tensors.items()}
