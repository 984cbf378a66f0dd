"""Gradient descent with momentum, as torch.optim.SGD computes it."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from recollect.train.optimisers.base import Decaying, Group, Parameters, State, zeros


class SGD(Decaying):
    """Gradient descent with momentum. Its steps are of the gradient's own size, so that its rates are not those of AdamW."""

    weight_decay: float = Field(default=0.0, ge=0)
    """What is added to the gradient per unit of the parameter."""
    momentum: float = Field(default=0.9, ge=0, lt=1)
    """What is kept of the last step."""
    nesterov: bool = False
    """Whether the gradient counts once more, as if it were taken one step ahead."""
    scales_with_gradient: ClassVar[bool] = True

    def start(self, params: Parameters) -> State:
        return {"trace": zeros(params)}

    def step(
        self, params: Parameters, grads: Parameters, state: State, groups: Sequence[Group], number: int | Tensor
    ) -> None:
        for group in groups:
            for name in group.names:
                p, trace = params[name], state["trace"][name]
                lr, momentum, weight_decay = group.like(p, "lr", "momentum", "weight_decay")
                g = torch.addcmul(grads[name], p, weight_decay) if self.decays(p) else grads[name]
                trace.mul_(momentum).add_(g)
                p.sub_(lr * (torch.addcmul(g, trace, momentum) if self.nesterov else trace))
