"""AdamW (Loshchilov & Hutter 2019); its step is in ops/optimisers.py."""

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field
from torch import Tensor

from recollect.ops.optimisers import adamw, adamw_of_one, adamw_scales
from recollect.train.optimisers.base import Decaying, Group, Parameters, State, zeros


class AdamW(Decaying):
    """AdamW: steps of about the learning rate's size, whatever the gradient's size, and decoupled weight decay."""

    beta1: float = Field(default=0.9, ge=0, lt=1)
    """Decay of the gradient's running mean."""
    beta2: float = Field(default=0.999, ge=0, lt=1)
    """Decay of the squared gradient's running mean."""
    eps: float = Field(default=1e-8, gt=0)
    """What is added to the denominator."""
    clips_itself: ClassVar[bool] = True

    def start(self, params: Parameters) -> State:
        return {"mean": zeros(params), "square": zeros(params)}

    def step(
        self, params: Parameters, grads: Parameters, state: State, groups: Sequence[Group], number: int | Tensor
    ) -> None:
        first = next(iter(params.values()))  # all parameters have the same device and precision
        for group in groups:
            if first.device.type == "cpu" and len(first) == 1 and isinstance(number, int):
                self._move_one(params, grads, state, group, number)
                continue
            scales = adamw_scales(group.numbers, number).to(first.dtype)
            for name in group.names:
                p, moments = params[name], (state["mean"][name], state["square"][name])
                adamw(p, grads[name], *moments, scales, self.decays(p), group.clips)

    def _move_one(self, params: Parameters, grads: Parameters, state: State, group: Group, number: int) -> None:
        numbers = {name: column.item() for name, column in group.numbers.items()}
        for decays in (True, False):
            names = [name for name in group.names if self.decays(params[name]) is decays]
            p, g, m, v = ([part[name] for name in names] for part in (params, grads, state["mean"], state["square"]))
            adamw_of_one(p, g, m, v, numbers if decays else numbers | {"weight_decay": 0.0}, number)
