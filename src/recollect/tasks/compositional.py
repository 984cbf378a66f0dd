"""Compositional recall: keys of two parts, neither of which tells the value on its own.

A row picks a few first parts and a few second parts, and binds K of their combinations: `a b v` K times, then every
combination `a b` once, in random order. The answer is read at `b` and is never fed.
"""

from typing import ClassVar, Literal, Self

import torch
from pydantic import Field, model_validator

from recollect.rng import Stream
from recollect.spec import SpecError
from recollect.tasks.base import Batch, Task


class Compositional(Task):
    """Compositional recall: two-part keys with values, then every key is asked."""

    kind: Literal["compositional"] = "compositional"
    pairs: int = Field(default=8, ge=1)
    """Keys with values in a row (K)."""
    parts: int = Field(default=4, ge=2)
    """First parts, and second parts, that the keys of a row are made of; at most parts x parts keys."""
    vocab: int = Field(default=128, ge=8, multiple_of=4)
    """Token ids. 0 is blank, first parts are 1 .. vocab/4-1, second vocab/4 .. vocab/2-1, values vocab/2 .. vocab-1."""

    accuracy: ClassVar[Literal["answers", "rows"]] = "answers"

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.pairs > self.parts**2:
            raise SpecError(f"compositional: pairs {self.pairs} exceed parts {self.parts} ** 2 = {self.parts**2} keys")
        if self.parts > self.vocab // 4 - 1 or self.pairs > self.vocab // 2:
            raise SpecError(
                f"compositional: vocab {self.vocab} has {self.vocab // 4 - 1} firsts and {self.vocab // 2} values, "
                f"too few for parts {self.parts} and pairs {self.pairs}"
            )
        return self

    @property
    def vocabulary(self) -> int:
        return self.vocab

    @property
    def row_length(self) -> int:
        return 5 * self.pairs

    @property
    def chance(self) -> float:
        """Guessing one of the row's own values."""
        return 1.0 / self.pairs

    def word(self, token: int) -> str:
        quarter = self.vocab // 4
        if token == 0:
            return "·"
        role, first = ("a", 0) if token < quarter else ("b", quarter) if token < 2 * quarter else ("v", 2 * quarter)
        return f"{role}{token - first}"

    def sample(self, stream: Stream) -> Batch:
        K, quarter = self.pairs, self.vocab // 4
        pair = torch.arange(K, device=stream.device)
        key = stream.bijection(self.parts**2)(pair)  # (rows, K), a cell of the parts x parts table
        first = 1 + stream.bijection(quarter - 1)(key // self.parts)
        second = quarter + stream.bijection(quarter)(key % self.parts)
        values = 2 * quarter + stream.bijection(2 * quarter)(pair)
        order = stream.order(K)  # which key is asked when
        context = torch.stack([first, second, values], dim=2).flatten(1)
        asked = torch.stack([first.gather(1, order), second.gather(1, order)], dim=2).flatten(1)
        positions = (3 * K + 2 * pair + 1).expand(stream.rows, -1)
        source = 3 * order + 2
        tags = {"gap": positions - source + 1, "key": order, "pairs": torch.full_like(order[:, :1], K)}
        return Batch(
            tokens=torch.cat([context, asked], dim=1),
            positions=positions,
            answers=values.gather(1, order),
            query=torch.arange(3 * K, 5 * K, device=stream.device).expand(stream.rows, -1),
            source=source,
            tags=tags,
        )
