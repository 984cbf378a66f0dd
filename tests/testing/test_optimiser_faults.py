"""The built-in optimisers satisfy the rules for optimisers, and a faulty one fails the rule that it breaks."""

import pytest
import torch
from pydantic import Field

from recollect.testing import OPTIMISER_CHECKS, OptimiserConformance
from recollect.train.optimisers.adamw import AdamW
from recollect.train.optimisers.base import Optimiser
from recollect.train.optimisers.lion import Lion
from recollect.train.optimisers.muon import Muon
from recollect.train.optimisers.schedule_free import ScheduleFree
from recollect.train.optimisers.sgd import SGD


class TestAdamW(OptimiserConformance):
    optimiser = AdamW()


class TestMuon(OptimiserConformance):
    optimiser = Muon()


class TestLion(OptimiserConformance):
    optimiser = Lion()


class TestScheduleFree(OptimiserConformance):
    optimiser = ScheduleFree()


class TestSGD(OptimiserConformance):
    optimiser = SGD(weight_decay=0.1, nesterov=True)


class Plain(Optimiser):
    """Gradient descent with momentum, rightly done."""

    momentum: float = Field(default=0.9, ge=0, lt=1)
    """What is kept of the last step."""

    def start(self, params):
        return {"trace": {name: torch.zeros_like(p) for name, p in params.items()}}

    def step(self, params, grads, state, groups, number):
        for group in groups:
            for name in group.names:
                lr, momentum = group.like(params[name], "lr", "momentum")
                params[name].sub_(lr * state["trace"][name].mul_(momentum).add_(grads[name]))


class Replaces(Plain):
    """Puts other tensors in the parameters' place."""

    def step(self, params, grads, state, groups, number):
        for group in groups:
            for name in group.names:
                params[name] = params[name] - group.like(params[name], "lr")[0] * grads[name]


class Averages(Plain):
    """Normalises by what all members have together."""

    def step(self, params, grads, state, groups, number):
        super().step(params, {n: g / (g.std() + 1) for n, g in grads.items()}, state, groups, number)


class First(Plain):
    """Takes the first member's momentum for all."""

    def step(self, params, grads, state, groups, number):
        for group in groups:
            for name in group.names:
                state["trace"][name].mul_(self.momentum).add_(grads[name])
                params[name].sub_(group.like(params[name], "lr")[0] * state["trace"][name])


class OneRate(Plain):
    """Moves all parameters by the first group's rate."""

    def step(self, params, grads, state, groups, number):
        for name in params:
            params[name].sub_(groups[0].like(params[name], "lr")[0] * grads[name])


class Forgets(Plain):
    """Remembers something outside its state."""

    def start(self, params):
        object.__setattr__(self, "_seen", 0)
        return super().start(params)

    def step(self, params, grads, state, groups, number):
        object.__setattr__(self, "_seen", self._seen + 1)
        super().step(params, {name: g / self._seen for name, g in grads.items()}, state, groups, number)


class Waits(Plain):
    """Decides by the value of a tensor."""

    def step(self, params, grads, state, groups, number):
        if all(g.abs().sum() > 0 for g in grads.values()):
            super().step(params, grads, state, groups, number)


class Understates(Plain):
    """Counts no state."""

    def state_bytes(self, params):
        return 0


def broken(optimiser: Optimiser) -> list[str]:
    found = []
    for check in OPTIMISER_CHECKS:
        try:
            check.function(optimiser)
        except AssertionError:
            found.append(check.name)
    return found


@pytest.mark.parametrize(
    ("faulty", "rule"),
    [(Replaces, "in_place"), (Averages, "other_members"), (First, "own_numbers"), (OneRate, "rates"), (Forgets, "resumes"),
     (Waits, "capturable"), (Understates, "outlined")],
)  # fmt: skip
def test_a_fault_is_found_by_its_rule(faulty, rule):
    assert rule in broken(faulty())


def test_an_optimiser_that_is_right_keeps_to_all():
    assert broken(Plain()) == []
