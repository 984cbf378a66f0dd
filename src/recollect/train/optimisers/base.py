"""The base class of optimisers: a frozen specification of the hyperparameters that updates the stacked parameters of all members.

Everything has the members on axis 0. A step may be compiled into a CUDA graph: it must not wait for the device, nor decide
anything in Python by the value of a tensor.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from recollect.spec import Spec

Parameters = dict[str, Tensor]
"""Named parameters, each with the members on axis 0."""
State = dict[str, Parameters]
"""An optimiser's state: groups of named tensors, each with the members on axis 0. A group may have a tensor for each
parameter, for some of them, or others. Its name is one of a checkpoint, where `params`, `sums` and `album` are taken."""


@dataclass(frozen=True)
class Group:
    """Parameters that share their rates, and every member's numbers at a step."""

    names: Sequence[str]
    """The parameters."""
    numbers: Mapping[str, Tensor]
    """By name, each (members,) in float64: `lr` (the peak rate times the schedule's factor), the optimiser's own fields that may
    differ per member and, where it clips itself, `clip` (what multiplies a member's gradients)."""
    clips: bool = False
    """Whether any member's gradients are clipped; where none are, `clip` is 1."""
    _rounded: dict[tuple[str, torch.dtype], Tensor] = field(default_factory=dict, repr=False)

    def like(self, p: Tensor, *names: str) -> list[Tensor]:
        """Some of the numbers, shaped for a stacked parameter: each (members, 1, ..) in its precision."""
        for name in names:
            if (name, p.dtype) not in self._rounded:  # once per step, not once per parameter
                self._rounded[name, p.dtype] = self.numbers[name].to(p.dtype)
        return [shaped(self._rounded[name, p.dtype], p) for name in names]


def shaped(column: Tensor, p: Tensor) -> Tensor:
    """A number per member, as a stacked parameter can be combined with it: (members,) -> (members, 1, ..)."""
    return column.to(p.dtype).view(-1, *(1,) * (p.dim() - 1))


def zeros(params: Parameters) -> Parameters:
    """A zero for each number of the parameters: how most states start. A plan counts the states of hundreds of models without
    allocating them, where `zeros_like` takes three times as long."""
    return {name: torch.zeros(p.shape, dtype=p.dtype, device=p.device) for name, p in params.items()}


class Optimiser(Spec):
    """An optimiser. A subclass has its numbers as fields, and defines `start` and `step`.

    Numbers that may differ between members are read from a group (`group.numbers`, `group.like`): the object itself is the
    first member's. A field that AdamW has too (`weight_decay`, `decay`, `beta1`, `beta2`, `eps`) is of the same type; one that
    training has itself (`lr`, `clip`, ..) is refused.
    """

    clips_itself: ClassVar[bool] = False
    """Whether `step` multiplies the gradients by `clip`, as a kernel can in the same pass; else it is given clipped ones."""

    scales_with_gradient: ClassVar[bool] = False
    """Whether a step grows with the gradient, as gradient descent's does; muP then has other rates (train/parametrisation.py)."""

    version: ClassVar[int] = 1
    """Raised when the same numbers start to mean other steps."""

    @classmethod
    def per_member(cls) -> tuple[str, ...]:
        """The fields in which members of one cohort may differ: every float, unless a subclass says otherwise."""
        return tuple(name for name, about in cls.model_fields.items() if about.annotation is float)

    def check(self, params: Mapping[str, Tensor]) -> None:
        """Raise SpecError where these parameters of one member cannot be trained; they may have no memory allocated."""

    def orthogonalised(self, params: Mapping[str, Tensor]) -> list[str]:
        """Which of these parameters of one member take orthogonal steps, as Muon's matrices do: they have other rates by muP."""
        return []

    @abstractmethod
    def start(self, params: Parameters) -> State:
        """The state before the first step."""

    @abstractmethod
    def step(
        self, params: Parameters, grads: Parameters, state: State, groups: Sequence[Group], number: int | Tensor
    ) -> None:
        """Move the parameters and the state in place. `number` counts the steps from 1; inside a CUDA graph it is a tensor
        without axes."""

    def evaluated(self, params: Parameters, state: State, groups: Sequence[Group]) -> Parameters:
        """The parameters that are measured and saved, where they differ from those at which gradients are taken. In these
        groups `lr` is the peak rate."""
        return params

    def state_bytes(self, params: Mapping[str, Tensor]) -> int:
        """How many bytes of state one member's parameters need; nothing is allocated."""
        outlines = {name: torch.empty((1, *p.shape), dtype=p.dtype, device="meta") for name, p in params.items()}
        return sum(tensor.nbytes for group in self.start(outlines).values() for tensor in group.values())


class Decaying(Optimiser):
    """An optimiser with weight decay, of all parameters or of some."""

    weight_decay: float = Field(default=0.1, ge=0)
    """Decoupled weight decay, as a share of the learning rate."""
    decay: Literal["all", "matrices"] = "all"
    """Which parameters decay: all, or only those with two or more axes."""

    def decays(self, p: Tensor) -> bool:
        """Whether a stacked parameter decays."""
        return self.decay == "all" or p.dim() > 2
