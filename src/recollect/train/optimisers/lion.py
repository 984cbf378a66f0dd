"""Lion (Chen et al. 2023); its step is in ops/optimisers.py."""

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field
from torch import Tensor

from recollect.ops.optimisers import lion, lion_scales
from recollect.train.optimisers.base import Decaying, Group, Parameters, State, zeros


class Lion(Decaying):
    """Lion: every number moves by exactly the learning rate, along the sign of a running mean of the gradient."""

    beta1: float = Field(default=0.9, ge=0, lt=1)
    """How much of the running mean is in the direction of a step."""
    beta2: float = Field(default=0.99, ge=0, lt=1)
    """Decay of the gradient's running mean."""
    clips_itself: ClassVar[bool] = True

    def start(self, params: Parameters) -> State:
        return {"mean": zeros(params)}

    def step(
        self, params: Parameters, grads: Parameters, state: State, groups: Sequence[Group], number: int | Tensor
    ) -> None:
        for group in groups:
            scales = lion_scales(group.numbers).to(params[group.names[0]].dtype)
            for name in group.names:
                p = params[name]
                lion(p, grads[name], state["mean"][name], scales, self.decays(p), group.clips)
