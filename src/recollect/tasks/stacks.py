"""Stacks (Kimi Team 2025, "Kimi Linear", 5.1): several stacks at once, pushed and popped in random order.

    push i x    x is put on stack i
    pop i x     x is taken off stack i: it is the answer, read at i

The paper states the operations, their tokens and the 64 stacks, but not how operations, stacks and symbols are drawn. Here pushes
and pops are equally likely. A push goes to any stack, a pop takes from any stack that is not empty; if all are empty, the
operation is a push. If a row has no other pop, its last operation is one.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from recollect.rng import Stream
from recollect.tasks.base import MOST, AnswersTask, Batch, largest_share

PUSH, POP, STACKS = 1, 2, 3
"""Token ids of the operations and of the first stack; symbols follow the stacks. 0 pads."""


class Stacks(AnswersTask):
    """Stacks: the symbol that each pop takes off."""

    kind: Literal["stacks"] = "stacks"
    stacks: int = Field(default=64, ge=1, le=MOST)
    """How many stacks there are."""
    symbols: int = Field(default=32, ge=2, le=MOST)
    """Different symbols."""
    operations: int = Field(default=84, ge=2, le=MOST // 3)
    """Operations in a row, of three tokens each."""

    @property
    def row_length(self) -> int:
        return 3 * self.operations

    @property
    def chance(self) -> float:
        """The accuracy of guessing the symbol that was pushed most often."""
        return largest_share(round(self.operations * 0.5 + self.operations**0.5 * 0.5), self.symbols)

    def lexicon(self) -> dict[str, range]:
        singles = dict.fromkeys(("·", "push", "pop"), range(1))
        return {**singles, "i{}": range(self.stacks), "s{}": range(self.symbols)}

    def sample(self, stream: Stream) -> Batch:
        n, device = self.operations, stream.device
        wants_pop = stream.integers(n, 0, 2) == 1
        pushed_to, symbol = stream.integers(n, 0, self.stacks), stream.integers(n, 0, self.symbols)
        popped, stack, source, depth = self._operations(wants_pop, pushed_to, stream.uniform(n))
        # the symbol of a pop is that of the push it undoes
        symbol = symbol.gather(1, source.where(popped, torch.arange(n, device=device)))
        operation = torch.where(popped, POP, PUSH)
        tokens = torch.stack([operation, STACKS + stack, STACKS + self.stacks + symbol], dim=2).flatten(1)

        answers = n // 2  # the most pops that a row has
        which = (~popped).long().argsort(dim=1, stable=True)[:, :answers]  # the pops in order, then others
        trained = popped.gather(1, which)
        read, push = 3 * which + 1, source.gather(1, which)
        tags = {"depth": depth.gather(1, which), "operations": which - push}
        return Batch.padded(tokens, read, tokens.gather(1, read + 1), trained, tags, source=3 * push + 2)

    def _operations(self, wants_pop: Tensor, pushed_to: Tensor, share: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """For each operation: whether it pops, its stack, the push that a pop undoes, and the depth of the stack before it."""
        rows, n = wants_pop.shape
        top = torch.full((rows, self.stacks), -1, dtype=torch.int64, device=share.device)  # the push on top, or -1
        below = torch.full_like(pushed_to, -1)  # what lay under the symbol of each push
        depths = torch.zeros_like(top)
        done = []
        for i in range(n):
            full = top >= 0
            sizes = full.cumsum(dim=1)  # (rows, stacks), how many stacks up to here are not empty
            filled = sizes[:, -1:]
            number = (share[:, i : i + 1] * filled).long() + 1
            pops = wants_pop[:, i : i + 1] & (filled > 0)
            if i == n - 1:  # every row has a pop
                pops = pops | ~torch.cat([popped for popped, *_ in done], dim=1).any(dim=1, keepdim=True)
            stack = torch.where(pops, (sizes < number).sum(dim=1, keepdim=True), pushed_to[:, i : i + 1])
            on_top = top.gather(1, stack)
            done.append((pops, stack, on_top, depths.gather(1, stack)))
            below[:, i : i + 1] = on_top
            under = below.gather(1, on_top.clamp(min=0))
            top = top.scatter(1, stack, torch.where(pops, under, i))
            depths = depths.scatter_add(1, stack, torch.where(pops, -1, 1))
        pops, stack, source, depth = (torch.cat(column, dim=1) for column in zip(*done, strict=True))
        return pops, stack, source.clamp(min=0), depth
