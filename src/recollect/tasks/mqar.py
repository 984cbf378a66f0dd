"""Multi-query associative recall (Arora et al. 2023, "Zoology"; Okpekpe & Orvieto 2025, appendix A.2).

A row is `k1 v1 .. kK vK` and then the query region, in which every key is queried once, at an even offset, among filler.
The answer is read at the query token and is never fed.
"""

from functools import cache
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from recollect.rng import Bijection, Stream
from recollect.tasks.base import MOST, Batch
from recollect.tasks.pairs import PairsTask, Roles


class MQAR(PairsTask):
    """Multi-query associative recall: K key-value pairs, then every key is queried once among filler."""

    kind: Literal["mqar"] = "mqar"
    length: int = Field(default=64, ge=4, le=MOST)
    """Tokens in a row; even, and at least 4 x pairs."""
    pairs: int = Field(default=4, ge=1)
    """Key-value pairs in a row (K)."""
    vocab: int = Field(default=8192, ge=4, le=MOST)
    """Token ids. 0 is blank, keys are 1 .. vocab/2-1, values vocab/2 .. vocab-1."""
    power_a: float = Field(default=0.01, gt=0, le=10)
    """The distribution of gaps: query slot g is drawn with p(g) proportional to (g+1)^(power_a-1), without replacement."""
    filler: Literal["random", "blank"] = "random"
    """The tokens of the query region that are not queries."""
    roles: Roles = "split"
    """`split`: keys and values from the two halves of the vocabulary. `shared`: both from all of it."""
    variant: Literal["clean", "zoology"] = "clean"
    """`clean`: filler never equals a key of its row, and any key may take any slot. `zoology`: as in the released
    generator, slots are drawn in key order (early keys are queried earlier) and filler may equal a key."""

    def _refusal(self) -> str | None:
        if self.length % 2:
            return f"length {self.length} is odd; it must be even"
        if 4 * self.pairs > self.length:
            return (
                f"pairs {self.pairs} do not fit length {self.length}: 4 x pairs = {4 * self.pairs} must be at most length "
                f"(so pairs at most {self.length // 4})"
            )
        if self.vocab <= self.length or self.vocab % 2:
            return f"vocab {self.vocab} must be even and greater than length {self.length}"
        return None

    def sample(self, stream: Stream) -> Batch:
        token, keys, values = self._draw_pairs(stream, self.pairs)
        pair = torch.arange(self.pairs, device=stream.device).expand(stream.rows, -1)
        return self._row(stream, token, keys, values, written=pair, last=pair)

    def _row(
        self, stream: Stream, token: Bijection, keys: Tensor, values: Tensor, written: Tensor, last: Tensor
    ) -> Batch:
        """The rows that write `values` (rows, writes) to the keys `written` names, then query every key once.

        `last` (rows, K) is the write that counts for each key.
        """
        K, context = self.pairs, 2 * values.shape[1]
        slots = (self.length - context) // 2
        if self.variant == "clean":  # any key may take any slot
            slot, key = stream.race(_rates(slots, self.power_a), K, ordered=False).sort(dim=1).values, stream.order(K)
        else:  # the first slot drawn is the first key's, and likely ones are drawn first
            slot, key = stream.race(_rates(slots, self.power_a), K).sort(dim=1)
        positions = context + 2 * slot  # (rows, K), in reading order; `key` is queried there

        tokens = torch.empty(stream.rows, self.length, dtype=torch.int64, device=stream.device)
        tokens[:, 0:context:2], tokens[:, 1:context:2] = keys.gather(1, written), values
        tokens[:, context:] = self._filler(stream, token, self.length - context)
        tokens.scatter_(1, positions, keys.gather(1, key))

        last = last.gather(1, key)
        return self._queried(tokens, positions, values.gather(1, last), key, 2 * last + 1)

    def _filler(self, stream: Stream, token: Bijection, n: int) -> Tensor:
        if self.filler == "blank":
            return torch.zeros(1, dtype=torch.int64, device=stream.device)
        if self.variant == "zoology":
            return stream.integers(n, 0, self.vocab)
        labels = self.vocab // 2 - 1 if self.roles == "split" else self.vocab - 1
        label = stream.integers(n, self.pairs, self.vocab - 1)  # every token but blank and the row's keys
        beyond = label * (label >= labels)  # labels beyond the map stay as they are; they are above all its images
        return 1 + torch.maximum(token(label.clamp(max=labels - 1)), beyond)


@cache
def _rates(slots: int, power_a: float) -> Tensor:
    return torch.arange(1, slots + 1, dtype=torch.float64) ** (power_a - 1)
