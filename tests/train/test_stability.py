"""Known answers: the largest stable rate of each optimiser on a quadratic, and the shapes of the schedules."""

import math

import pytest
import torch

from recollect.train.optimisers.adamw import AdamW
from recollect.train.optimisers.base import Group, Optimiser
from recollect.train.optimisers.lion import Lion
from recollect.train.optimisers.muon import Muon
from recollect.train.optimisers.schedule_free import ScheduleFree
from recollect.train.optimisers.sgd import SGD
from recollect.train.spec import TrainSpec

CURVATURE = 3.0
NAME = "layers.0.weight"


def grows(optimiser: Optimiser, rates: list[float], start: float) -> list[bool]:
    """Whether each rate leads away from the least of curvature x^2 / 2, over 1000 steps."""
    params = {NAME: start * torch.eye(2, dtype=torch.float64).repeat(len(rates), 1, 1)}
    ones = torch.ones(len(rates), dtype=torch.float64)
    numbers = {"lr": torch.tensor(rates, dtype=torch.float64), "clip": ones}
    numbers |= {name: ones * getattr(optimiser, name) for name in optimiser.per_member()}
    state = optimiser.start(params)
    for step in range(1000):
        grads = {NAME: CURVATURE * params[NAME]}
        optimiser.step(params, grads, state, [Group((NAME,), numbers)], step + 1)
    return [not (x.abs().max() < 1e3 * start) for x in params[NAME]]


# A large eps, and a start so small that no gradient comes near it, make the adaptive ones linear: rates are divided by eps.
EDGES = {
    "gradient descent": (SGD(momentum=0.0), 2 / CURVATURE, 1.0),
    "heavy ball": (SGD(momentum=0.9), 2 * 1.9 / CURVATURE, 1.0),
    "nesterov": (SGD(momentum=0.9, nesterov=True), 2 * 1.9 / (1 + 2 * 0.9) / CURVATURE, 1.0),
    "adamw": (AdamW(eps=1e6, weight_decay=0), 1e6 * 2 * 1.9 / 0.1 / CURVATURE, 1e-12),
    "schedule-free": (ScheduleFree(eps=1e6, weight_decay=0), 1e6 * 2 / 0.1 / CURVATURE, 1e-12),
    # These two move by steps of bounded size, so that only weight decay, which multiplies by 1 - lr decay, can run away.
    "lion": (Lion(weight_decay=0.1), 2 / 0.1, 1e6),
    "muon": (Muon(weight_decay=0.1), 2 / 0.1, 1e6),
}


@pytest.mark.parametrize("case", EDGES)
def test_the_largest_stable_rate_is_where_theory_puts_it(case):
    optimiser, edge, start = EDGES[case]
    assert grows(optimiser, [0.5 * edge, 0.97 * edge, 1.03 * edge], start) == [False, False, True]


def factors(**train) -> list[float]:
    spec = TrainSpec(steps=100, **train)
    return [spec.rate_factor(step) for step in range(100)]


def test_wsd_warms_up_stays_and_decays_to_zero():
    found = factors(schedule="wsd", warmup=0.1, decay_share=0.25)
    assert found[9:75] == [1.0] * 66
    assert found[75:] == pytest.approx([(25 - i) / 26 for i in range(25)])
    assert factors(schedule="wsd", warmup=0, decay_share=0) == [1.0] * 100
    assert factors(schedule="wsd", warmup=0.5, decay_share=1)[49:52] == pytest.approx([1, 50 / 51, 49 / 51])


def test_inverse_sqrt_follows_the_step():
    found = factors(schedule="inverse_sqrt", warmup=0.1)
    assert found[9] == 1
    assert found[39] == pytest.approx(math.sqrt(10 / 40))
    assert factors(schedule="inverse_sqrt", warmup=0)[24] == pytest.approx(0.2)
