"""Noisy recall: associative recall with noise between the pairs.

The context has K key-value pairs, with noise tokens, which are neither keys nor values, anywhere between them. Then every key is
queried once, in random order. The answer is read at the key and is never fed.

MAD's noisy recall (`mad_noisy`) differs: pairs recur throughout the row and are queried where they recur.
"""

from typing import Literal

import torch
from pydantic import Field

from recollect.rng import Stream
from recollect.tasks.base import MOST, Batch
from recollect.tasks.pairs import PairsTask


class Noisy(PairsTask):
    """Noisy recall: key-value pairs scattered among noise, then every key is queried. (MAD's is `mad_noisy`.)"""

    kind: Literal["noisy"] = "noisy"
    length: int = Field(default=128, ge=3, le=MOST)
    """Tokens in a row: 2 x pairs and the noise, then the pairs' queries."""
    pairs: int = Field(default=8, ge=1)
    """Key-value pairs in a row (K)."""
    vocab: int = Field(default=128, ge=4, le=MOST, multiple_of=2)
    """Token ids other than noise. 0 is blank, keys are 1 .. vocab/2-1, values vocab/2 .. vocab-1."""
    noises: int = Field(default=16, ge=1, le=MOST)
    """Different noise tokens."""

    def _refusal(self) -> str | None:
        if 3 * self.pairs > self.length:
            return (
                f"pairs {self.pairs} do not fit length {self.length}: 3 x pairs = {3 * self.pairs} must be at most length "
                f"(so pairs at most {self.length // 3})"
            )
        return super()._refusal()

    def lexicon(self) -> dict[str, range]:
        return {**super().lexicon(), "n{}": range(self.noises)}

    def sample(self, stream: Stream) -> Batch:
        K, context = self.pairs, self.length - self.pairs
        pair = torch.arange(K, device=stream.device)
        _, keys, values = self._draw_pairs(stream, K)
        # a pair is one item among the noise tokens: draw the items' positions, then widen each pair to two tokens
        item = stream.bijection(context - K)(pair).sort(dim=1).values
        written = item + pair  # (rows, K), the position of each key
        order = stream.order(K)  # (rows, K), the order of the queries
        tokens = stream.integers(self.length, self.vocab, self.vocab + self.noises)
        tokens.scatter_(1, written, keys).scatter_(1, written + 1, values)
        tokens[:, context:] = keys.gather(1, order)
        positions = (context + pair).expand(stream.rows, -1)
        return self._queried(tokens, positions, values.gather(1, order), order, written.gather(1, order) + 1)
