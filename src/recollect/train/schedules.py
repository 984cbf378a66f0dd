"""Schedules of the learning rate: what follows warm-up, which is the same for all of them."""

import math
from abc import abstractmethod

from pydantic import Field

from recollect.spec import Spec
from recollect.spec.registry import Registry

SCHEDULES: "Registry[type[Schedule]]" = Registry(
    "schedule",
    group="recollect.schedules",
    base="recollect.train.schedules:Schedule",
    built_in={
        "constant": "recollect.train.schedules:Constant",
        "linear": "recollect.train.schedules:Linear",
        "cosine": "recollect.train.schedules:Cosine",
        "wsd": "recollect.train.schedules:WSD",
        "inverse_sqrt": "recollect.train.schedules:InverseSqrt",
    },
)


class Schedule(Spec):
    """What multiplies the peak learning rate. A subclass has its numbers as fields, and defines `after_warmup`."""

    def factor(self, step: int, warmup: int, steps: int) -> float:
        """The factor at a step (0 is the first) of a run of `steps`; the first `warmup` steps rise to the peak."""
        return (step + 1) / warmup if step < warmup else self.after_warmup(step, warmup, steps)

    @abstractmethod
    def after_warmup(self, step: int, warmup: int, steps: int) -> float:
        """The factor at a step after warm-up."""


class Constant(Schedule):
    """The peak rate to the end."""

    def after_warmup(self, step: int, warmup: int, steps: int) -> float:
        return 1.0


class Linear(Schedule):
    """Down to zero in a straight line."""

    def after_warmup(self, step: int, warmup: int, steps: int) -> float:
        return 1 - share(step, warmup, steps)


class Cosine(Schedule):
    """Down to zero along half a cosine."""

    def after_warmup(self, step: int, warmup: int, steps: int) -> float:
        return 0.5 * (1 + math.cos(math.pi * share(step, warmup, steps)))


class WSD(Schedule):
    """Warm-up, stable, decay (Hu et al. 2024): the peak rate, then down to zero in a straight line."""

    decay_share: float = Field(default=0.2, ge=0, le=1)
    """Which share of the run the decay takes, at the end."""

    def after_warmup(self, step: int, warmup: int, steps: int) -> float:
        decay = min(round(self.decay_share * steps), steps - warmup)
        return min(1.0, (steps - step) / (decay + 1))


class InverseSqrt(Schedule):
    """Proportional to the inverse square root of the step (Vaswani et al. 2017), with factor 1 at the end of warm-up."""

    def after_warmup(self, step: int, warmup: int, steps: int) -> float:
        return math.sqrt(max(1, warmup) / (step + 1))


def share(step: int, warmup: int, steps: int) -> float:
    """Which share of what follows warm-up has passed: 0 at its first step, and below 1 at the last."""
    return (step - warmup) / max(1, steps - warmup)
