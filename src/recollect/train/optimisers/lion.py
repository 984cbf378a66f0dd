"""Lion (Chen et al. 2023); its step is in ops/lion.py."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from recollect.ops.lion import lion, lion_scales
from recollect.train.optimisers.base import Group, Optimiser, Parameters, State


class Lion(Optimiser):
    """Lion: every number moves by exactly the learning rate, along the sign of a running mean of the gradient."""

    weight_decay: float = Field(default=0.1, ge=0)
    """Decoupled weight decay, as a share of the learning rate."""
    decay: Literal["all", "matrices"] = "all"
    """Which parameters decay: all, or only those with two or more axes."""
    beta1: float = Field(default=0.9, ge=0, lt=1)
    """How much of the running mean is in the direction of a step."""
    beta2: float = Field(default=0.99, ge=0, lt=1)
    """Decay of the gradient's running mean."""
    clips_itself: ClassVar[bool] = True

    def start(self, params: Parameters) -> State:
        return {"mean": {name: torch.zeros_like(p) for name, p in params.items()}}

    def step(
        self, params: Parameters, grads: Parameters, state: State, groups: Sequence[Group], number: int | Tensor
    ) -> None:
        for group in groups:
            scales = lion_scales(group.numbers).to(params[group.names[0]].dtype)
            for name in group.names:
                decays = self.decay == "all" or params[name].dim() > 2
                lion(params[name], grads[name], state["mean"][name], scales, decays, group.clips)
