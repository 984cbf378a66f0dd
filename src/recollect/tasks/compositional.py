"""Compositional recall: keys of two parts, neither of which determines the value alone.

A row picks `parts` first parts and as many second parts, and binds K of their combinations: `a b v` K times, then every
combination `a b` once, in random order. The answer is read at `b` and is never fed. Every part is in at least two
keys, and all values differ, so a model that looks at one part of the key answers at most parts / K of the queries.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from recollect.rng import Stream
from recollect.tasks.base import MOST, Batch
from recollect.tasks.pairs import PairsTask


class Compositional(PairsTask):
    """Compositional recall: two-part keys with values, then every key is queried."""

    kind: Literal["compositional"] = "compositional"
    pairs: int = Field(default=16, ge=4)
    """Keys with values in a row (K): from 2 x parts to parts x parts, which is every combination."""
    parts: int = Field(default=4, ge=2)
    """First parts, and second parts, that the keys of a row are made of."""
    vocab: int = Field(default=128, ge=8, le=MOST, multiple_of=4)
    """Token ids. 0 is blank, first parts are 1 .. vocab/4-1, second vocab/4 .. vocab/2-1, values vocab/2 .. vocab-1."""

    def _refusal(self) -> str | None:
        if not 2 * self.parts <= self.pairs <= self.parts**2:
            return (
                f"pairs {self.pairs} with parts {self.parts} must be from 2 x parts = {2 * self.parts}, so that no part alone "
                f"determines the value, to parts ** 2 = {self.parts**2}"
            )
        firsts, values = self.vocab // 4 - 1, self.vocab // 2
        if self.parts > firsts or self.pairs > values:
            have = f"vocab {self.vocab} has {firsts} firsts and {values} values"
            return f"{have}, too few for parts {self.parts} and pairs {self.pairs}"
        return None

    @property
    def row_length(self) -> int:
        return 5 * self.pairs

    def lexicon(self) -> dict[str, range]:
        quarter = self.vocab // 4
        return {"·": range(1), "a{}": range(1, quarter), "b{}": range(quarter), "v{}": range(2 * quarter)}

    def sample(self, stream: Stream) -> Batch:
        K, quarter = self.pairs, self.vocab // 4
        pair = torch.arange(K, device=stream.device)
        first, second = self._cells(stream)
        written = stream.order(K)  # the order of the keys
        first = 1 + stream.bijection(quarter - 1)(first.gather(1, written))
        second = quarter + stream.bijection(quarter)(second.gather(1, written))
        values = 2 * quarter + stream.bijection(2 * quarter)(pair)
        order = stream.order(K)  # the order of the queries
        context = torch.stack([first, second, values], dim=2).flatten(1)
        asked = torch.stack([first.gather(1, order), second.gather(1, order)], dim=2).flatten(1)
        positions = (3 * K + 2 * pair + 1).expand(stream.rows, -1)
        tokens = torch.cat([context, asked], dim=1)
        batch = self._queried(tokens, positions, values.gather(1, order), order, 3 * order + 2)
        batch.query = torch.arange(3 * K, 5 * K, device=stream.device).expand(stream.rows, -1)
        return batch

    def _cells(self, stream: Stream) -> tuple[Tensor, Tensor]:
        """Which first and which second part each key has, each (rows, K): K different cells of the parts x parts table.

        Every first part meets the second part of its own number and the next, then others are drawn: so each part
        is in two keys or more. Which token has which number is drawn afterwards.
        """
        other = torch.arange(self.pairs - 2 * self.parts, device=stream.device)
        others = stream.bijection(self.parts * (self.parts - 2))(other)
        two = torch.arange(2 * self.parts, device=stream.device).expand(stream.rows, -1)
        more = max(1, self.parts - 2)
        first = torch.cat([two // 2, others // more], dim=1)
        beyond = torch.cat([two % 2, 2 + others % more], dim=1)  # how far the second part's number is from the first's
        return first, (first + beyond) % self.parts
