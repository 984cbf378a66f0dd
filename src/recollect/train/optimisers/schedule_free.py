"""Schedule-free AdamW (Defazio et al. 2024); its step is in ops/optimisers.py.

It needs no decaying rate: what is measured is an average of all points so far, in which a point counts by the square of the
largest rate until then. Any schedule of its rate is accepted; the authors' is `constant` after warm-up.
"""

from collections.abc import Sequence

import torch
from pydantic import Field
from torch import Tensor

from recollect.ops.optimisers import schedule_free, schedule_free_scales
from recollect.train.device import sum_dtype
from recollect.train.optimisers.adamw import AdamW
from recollect.train.optimisers.base import Group, Parameters, State, zeros


class ScheduleFree(AdamW):
    """Schedule-free AdamW: gradients are taken near, and models measured at, an average of the points so far."""

    beta1: float = Field(default=0.9, gt=0, lt=1)
    """How close to the average gradients are taken: at 1 they would be taken there."""

    def start(self, params: Parameters) -> State:
        first = next(iter(params.values()))
        none = torch.zeros(len(first), dtype=sum_dtype(first.device), device=first.device)
        return {
            "point": {name: p.clone() for name, p in params.items()},
            "square": zeros(params),
            "weight": {"largest_rate": none, "sum": none.clone()},
        }

    def step(
        self, params: Parameters, grads: Parameters, state: State, groups: Sequence[Group], number: int | Tensor
    ) -> None:
        newest = _weight_of_newest(state["weight"], torch.stack([group.numbers["lr"] for group in groups]).amax(0))
        for group in groups:
            scales = schedule_free_scales(group.numbers, number, newest).to(params[group.names[0]].dtype)
            for name in group.names:
                p, held = params[name], (state["point"][name], state["square"][name])
                schedule_free(p, grads[name], *held, scales, self.decays(p), group.clips)

    def evaluated(self, params: Parameters, state: State, groups: Sequence[Group]) -> Parameters:
        average = {}
        for group in groups:
            for name in group.names:
                p = params[name]
                (beta1,) = group.like(p, "beta1")
                average[name] = p.lerp(state["point"][name], (1 - 1 / beta1).expand_as(p))
        return {name: average[name] for name in params}


def _weight_of_newest(weight: Parameters, rate: Tensor) -> Tensor:
    """How much the newest point counts in the average: (members,). The rate's scale cancels, so that it is the same for
    groups whose rates differ by a factor."""
    weight["largest_rate"].copy_(torch.maximum(weight["largest_rate"], rate))
    square = weight["largest_rate"].square()
    weight["sum"].add_(square)
    return square / weight["sum"].clamp(min=torch.finfo(square.dtype).tiny)
