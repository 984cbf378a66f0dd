"""Stacks (Kimi Team 2025, "Kimi Linear", 5.1): several stacks at once, pushed and popped in random order.

    push i x    x is put on stack i
    pop i x     x is taken off stack i: it is read at i, one token before it stands

Pushes and pops are equally likely, a push is to any stack, a pop from any stack that is not empty; where all are empty, the
operation is a push, and where a row has no pop yet, its last operation is one. The paper does not state its law of the
operations.
"""

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from recollect.rng import Stream
from recollect.tasks.base import MOST, Batch, Task, largest_share

PUSH, POP, STACKS = 1, 2, 3
"""Token ids of the operations and of the first stack; symbols follow the stacks. 0 pads."""


class Stacks(Task):
    """Stacks: what does each pop take off?"""

    kind: Literal["stacks"] = "stacks"
    stacks: int = Field(default=64, ge=1, le=MOST)
    """How many stacks there are."""
    symbols: int = Field(default=32, ge=2, le=MOST)
    """Different symbols."""
    operations: int = Field(default=84, ge=2, le=MOST // 3)
    """Operations in a row, of three tokens each."""

    accuracy: ClassVar[Literal["answers", "rows"]] = "answers"

    @property
    def vocabulary(self) -> int:
        return STACKS + self.stacks + self.symbols

    @property
    def row_length(self) -> int:
        return 3 * self.operations

    @property
    def chance(self) -> float:
        """The symbol that was pushed most often."""
        return largest_share(round(self.operations * 0.5 + self.operations**0.5 * 0.5), self.symbols)

    def word(self, token: int) -> str:
        if token < STACKS:
            return ("·", "push", "pop")[token]
        stack = token - STACKS
        return f"i{stack}" if stack < self.stacks else f"s{stack - self.stacks}"

    def sample(self, stream: Stream) -> Batch:
        n, device = self.operations, stream.device
        wants_pop = stream.integers(n, 0, 2) == 1
        pushed_to, symbol = stream.integers(n, 0, self.stacks), stream.integers(n, 0, self.symbols)
        popped, stack, source, depth = self._operations(wants_pop, pushed_to, stream.uniform(n))
        # the symbol of a pop is that of the push it takes back
        symbol = symbol.gather(1, source.where(popped, torch.arange(n, device=device)))
        operation = torch.where(popped, POP, PUSH)
        tokens = torch.stack([operation, STACKS + stack, STACKS + self.stacks + symbol], dim=2).flatten(1)

        answers = n // 2  # a row has as many pops at most
        place = (~popped).long().argsort(dim=1, stable=True)[:, :answers]  # the pops in order, then others
        trained = popped.gather(1, place)
        read, found = 3 * place + 1, source.gather(1, place)
        return Batch(
            tokens=tokens,
            positions=read.where(trained, 0),
            answers=tokens.gather(1, read + 1).where(trained, 0),
            query=read.where(trained, -1),
            source=(3 * found + 2).where(trained, -1),
            trained=trained,
            tags={
                "depth": depth.gather(1, place).where(trained, -1),
                "operations": (place - found).where(trained, -1),
            },
        )

    def _operations(self, wants_pop: Tensor, pushed_to: Tensor, which: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Of each operation whether it pops, its stack, the push that a pop takes back, and how deep the stack was before."""
        rows, n = wants_pop.shape
        top = torch.full((rows, self.stacks), -1, dtype=torch.int64, device=which.device)  # the push on top, or -1
        below = torch.full_like(pushed_to, -1)  # what lay under the symbol of each push
        depths = torch.zeros_like(top)
        found = []
        for i in range(n):
            full = top >= 0
            sizes = full.cumsum(dim=1)  # (rows, stacks), how many stacks up to here are not empty
            filled = sizes[:, -1:]
            number = (which[:, i : i + 1] * filled).long() + 1
            pops = wants_pop[:, i : i + 1] & (filled > 0)
            if i == n - 1:  # every row has a pop
                pops = pops | ~torch.cat([popped for popped, *_ in found], dim=1).any(dim=1, keepdim=True)
            stack = torch.where(pops, (sizes < number).sum(dim=1, keepdim=True), pushed_to[:, i : i + 1])
            on_top = top.gather(1, stack)
            found.append((pops, stack, on_top, depths.gather(1, stack)))
            below[:, i : i + 1] = on_top
            under = below.gather(1, on_top.clamp(min=0))
            top = top.scatter(1, stack, torch.where(pops, under, i))
            depths = depths.scatter_add(1, stack, torch.where(pops, -1, 1))
        pops, stack, source, depth = (torch.cat(column, dim=1) for column in zip(*found, strict=True))
        return pops, stack, source.clamp(min=0), depth
