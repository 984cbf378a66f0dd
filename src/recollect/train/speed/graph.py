"""A training step as one CUDA graph.

A step of a small cohort is hundreds of short kernels, and a GPU finishes one before the processor has launched the next.
Once a compiled step has been taken a few times, all of it (forward, backward, optimiser, tallies) is recorded, and from then on
launched as a whole. A graph works on the tensors that it was recorded with: what changes from step to step is copied into
them, and when members leave it is recorded anew. A step that cannot be recorded (one that waits for the GPU) runs without a
graph.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

WARM = 2
"""Steps without a graph before one is recorded: kernels are compiled and chosen in them."""


@dataclass
class Inputs:
    """What changes from step to step."""

    rows: list[Tensor]
    """Tokens, positions, answers, trained and scored: each (seeds, batch, ..)."""
    drops: Tensor
    """What decides dropout masks: (members,)."""
    number: int | Tensor
    """Which step it is, from 1."""
    factor: float | Tensor
    """The schedule's."""


class Replay:
    """Runs steps: the first few without a graph, then as one."""

    def __init__(self, step: Callable[[Inputs], None], device: torch.device):
        self.step, self.taken = step, 0
        self.able = device.type == "cuda"
        self.held: Inputs | None = None
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, inputs: Inputs) -> None:
        self.taken += 1
        if self.able and self.graph is None and self.taken > WARM:
            self._record(inputs)
        if self.graph is None or self.held is None:
            self.step(inputs)
            return
        for held, given in zip([*self.held.rows, self.held.drops], [*inputs.rows, inputs.drops], strict=True):
            held.copy_(given)
        for held, given in ((self.held.number, inputs.number), (self.held.factor, inputs.factor)):
            torch.as_tensor(held).fill_(given)
        self.graph.replay()

    def _record(self, inputs: Inputs) -> None:
        zero = torch.zeros((), dtype=torch.float64, device=inputs.drops.device)
        held = Inputs([x.clone() for x in inputs.rows], inputs.drops.clone(), zero, zero.clone())
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self.step(held)
            self.held, self.graph = held, graph
        except RuntimeError:  # it waits for the device, or memory does not hold a second step
            self.able = False
            torch.cuda.synchronize()
