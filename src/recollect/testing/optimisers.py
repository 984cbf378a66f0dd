"""Rules that an optimiser must satisfy, one function per rule.

Each takes an optimiser, raises AssertionError with what is wrong and where, and returns None, or a note if the
rule does not apply. They train members of a small made-up model on quadratics, every member with its own numbers.
"""

from collections.abc import Sequence
from typing import Any

import torch

from recollect.testing.check import Check, Conformance, checks
from recollect.testing.measure import numbers as normal
from recollect.train.optimisers.base import Group, Optimiser, Parameters, State

SHAPES = {
    "embedding.weight": (7, 4), "layers.0.mixer.qkv.weight": (12, 4), "layers.0.mixer.out.weight": (4, 4),
    "layers.0.mixer.out.bias": (4,), "layers.0.mlp.out.weight": (4, 12), "gates.0": (),
}  # fmt: skip
STEPS = 5
RATES = (1e-3, 3e-3, 1e-2, 3e-2, 2e-3, 5e-3, 7e-3, 2e-2)
"""The members' learning rates."""


class Trial:
    """Some of eight members in training, each with its own rate, start, target and share of the optimiser's numbers."""

    def __init__(self, optimisers: Sequence[Optimiser], members: Sequence[int], frozen: Sequence[str] = ()):
        """`optimisers` has the object of each member; `frozen` are parameters in a group whose rate is 0."""
        self.optimiser, rows = optimisers[0], list(members)
        draws = {name: normal(2, len(RATES), *shape, seed=i) for i, (name, shape) in enumerate(SHAPES.items())}
        self.params: Parameters = {name: draw[0, rows].clone() for name, draw in draws.items()}
        self.targets = {name: draw[1, rows] for name, draw in draws.items()}
        self.state: State = self.optimiser.start(self.params)
        columns = {name: [getattr(one, name) for one in optimisers] for name in self.optimiser.per_member()}
        columns["lr"] = [RATES[i] for i in rows]
        self.numbers = {name: torch.tensor(column, dtype=torch.float64) for name, column in columns.items()}
        if self.optimiser.clips_itself:
            self.numbers["clip"] = torch.linspace(0.4, 1, len(RATES), dtype=torch.float64)[rows]
        self.frozen = list(frozen)

    def groups(self) -> list[Group]:
        """The members' numbers, in one group or two."""
        clips, free = "clip" in self.numbers, tuple(name for name in SHAPES if name not in self.frozen)
        still = self.numbers | {"lr": self.numbers["lr"] * 0}
        groups = [Group(free, self.numbers, clips)]
        return [*groups, Group(tuple(self.frozen), still, clips)] if self.frozen else groups

    def train(self, first: int, last: int, tensors: bool = False) -> "Trial":
        """Take these steps; with their numbers as tensors, as inside a CUDA graph, if `tensors`."""
        for number in range(first, last + 1):
            grads = {name: p - self.targets[name] for name, p in self.params.items()}
            count = torch.tensor(float(number), dtype=torch.float64) if tensors else number
            self.optimiser.step(self.params, grads, self.state, self.groups(), count)
        return self

    def results(self) -> Parameters:
        """The parameters that are trained, and those that are measured, by name."""
        measured = self.optimiser.evaluated(self.params, self.state, self.groups())
        assert measured.keys() == self.params.keys(), f"evaluated() gives {sorted(measured)}, not {sorted(self.params)}"
        return self.params | {f"evaluated {name}": p for name, p in measured.items()}


def in_place(optimiser: Optimiser) -> None:
    """A step moves every parameter, in place, and keeps the shapes of the state."""
    trial = Trial([optimiser] * 8, range(8))
    before, held = {name: p.clone() for name, p in trial.params.items()}, dict(trial.params)
    shapes = {f"{part}.{name}": t.shape for part, tensors in trial.state.items() for name, t in tensors.items()}
    trial.train(1, STEPS)
    for name, p in trial.params.items():
        assert p is held[name], f"{name} is replaced by another tensor; it must be moved in place"
        assert not torch.equal(p, before[name]), f"{name} does not move"
        assert p.isfinite().all(), f"{name} is not finite after {STEPS} steps"
    for part, tensors in trial.state.items():
        for name, t in tensors.items():
            assert t.shape == shapes.get(f"{part}.{name}"), f"state {part}.{name} is {tuple(t.shape)}: it has changed"
            assert t.shape[:1] == (8,), f"state {part}.{name} is {tuple(t.shape)}: the 8 members must be axis 0"


def other_members(optimiser: Optimiser) -> None:
    """A member's numbers are the same to the bit whatever the other members are."""
    together = Trial([optimiser] * 8, range(8)).train(1, STEPS).results()
    for rows in ([3, 3], [5, 1, 6]):
        few = Trial([optimiser] * len(rows), rows).train(1, STEPS).results()
        for name, value in few.items():
            assert torch.equal(value, together[name][rows]), f"{name} of members {rows} depends on the other members"


def own_numbers(optimiser: Optimiser) -> str | None:
    """Every number that may differ between members is read from the group, not from the object."""
    names = optimiser.per_member()
    if not names:
        return "has no numbers that may differ"
    for name in names:
        other = optimiser.changed(**{name: getattr(optimiser, name) * 0.9 + 1e-4})
        mixed = Trial([optimiser, other, optimiser, other], [0, 1, 2, 3]).train(1, STEPS).results()
        alone = Trial([other, other], [1, 3]).train(1, STEPS).results()
        for key, value in alone.items():
            assert torch.equal(mixed[key][[1, 3]], value), f"{name}: {key} does not follow the member's own number"
    return None


def rates(optimiser: Optimiser) -> None:
    """Each group has its own rate: at 0 its parameters stay, and the others move as they would alone."""
    frozen = ("layers.0.mixer.qkv.weight", "layers.0.mixer.out.bias")
    trial, free = Trial([optimiser] * 4, range(4), frozen), Trial([optimiser] * 4, range(4))
    start = {name: p.clone() for name, p in trial.params.items()}
    after, expected = trial.train(1, STEPS).results(), free.train(1, STEPS).results()
    for name in SHAPES:
        if name in frozen:
            assert torch.equal(after[name], start[name]), f"{name} moves, though the rate of its group is 0"
        else:
            torch.testing.assert_close(
                after[name], expected[name], msg=f"{name} moves differently beside another group"
            )


def resumes(optimiser: Optimiser) -> None:
    """Training that is stopped after any step and resumed from parameters and state is the same to the bit."""
    whole = Trial([optimiser] * 4, range(4)).train(1, 2 * STEPS).results()
    first, second = Trial([optimiser] * 4, range(4)).train(1, STEPS), Trial([optimiser] * 4, range(4))
    for part, tensors in {"params": first.params, **first.state}.items():
        for name, t in tensors.items():
            (second.params if part == "params" else second.state[part])[name].copy_(t)
    for name, value in second.train(STEPS + 1, 2 * STEPS).results().items():
        assert torch.equal(value, whole[name]), f"{name} differs after a stop: something is not in the state"


def capturable(optimiser: Optimiser) -> None:
    """A step reads no value of a tensor, so that it can be part of a CUDA graph, and counts by a tensor as by an int."""
    trial = Trial([optimiser] * 4, range(4))
    for tensors in (trial.params, trial.targets, trial.numbers, *trial.state.values()):
        tensors.update({name: t.to("meta") for name, t in tensors.items()})
    try:
        trial.train(1, 2)
    except (RuntimeError, NotImplementedError) as error:
        raise AssertionError(f"a step reads the value of a tensor: {error}") from error
    by_tensor, by_int = (Trial([optimiser] * 4, range(4)).train(1, STEPS, kind).results() for kind in (True, False))
    for name, value in by_int.items():
        torch.testing.assert_close(
            by_tensor[name], value, rtol=1e-9, atol=1e-12, msg=f"{name} depends on the count's type"
        )


def outlined(optimiser: Optimiser) -> None:
    """The bytes of the state are counted without allocating it, and are those of the state."""
    params = {name: torch.empty(shape, dtype=torch.float64, device="meta") for name, shape in SHAPES.items()}
    counted = optimiser.state_bytes(params)
    held = sum(t.nbytes for part in Trial([optimiser], [0]).state.values() for t in part.values())
    assert counted == held, f"state_bytes says {counted}, and the state has {held}"


OPTIMISER_CHECKS: list[Check] = checks(in_place, other_members, own_numbers, rates, resumes, capturable, outlined)


class OptimiserConformance(Conformance, rules=OPTIMISER_CHECKS):
    """Tests for your own optimiser: inherit, call the class Test.., and set `optimiser`."""

    optimiser: Optimiser

    def given(self, check: Check) -> dict[str, Any]:
        return {"optimiser": self.optimiser}
