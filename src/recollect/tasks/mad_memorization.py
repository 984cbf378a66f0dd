"""Memorization as in MAD (Poli et al. 2024): a fixed map from keys to values, learned from the training rows.

A row is a sequence of `key, mark`; the value of the key is read at the mark and is never fed. Training and test rows share the
map, and no row contains it. Keys are the lower half of the ids below the mark, values the upper half.
"""

from functools import cache
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from recollect import rng
from recollect.rng import Stream
from recollect.tasks.base import MOST, AnswersTask, Batch


class MADMemorization(AnswersTask):
    """MAD's memorization: the value of a key, which is the same in all rows."""

    kind: Literal["mad_memorization"] = "mad_memorization"
    length: int = Field(default=32, ge=2, le=MOST, multiple_of=2)
    """Tokens in a row: keys and marks."""
    vocab: int = Field(default=256, ge=3, le=MOST)
    """Token ids: keys, values, and the mark as the last."""
    map: int = Field(default=0, ge=0, lt=2**63)
    """Which map from keys to values. It does not depend on a run's seed."""

    @property
    def keys(self) -> int:
        """Different keys."""
        return (self.vocab - 1) // 2

    @property
    def chance(self) -> float:
        """The accuracy of guessing any value that a key has."""
        return 1.0 / self.keys

    def lexicon(self) -> dict[str, range]:
        return {"k{}": range(self.keys), "v{}": range(self.vocab - 1 - self.keys), "mark": range(1)}

    def sample(self, stream: Stream) -> Batch:
        key = stream.integers(self.length // 2, 0, self.keys)  # (rows, pairs)
        tokens = torch.stack([key, torch.full_like(key, self.vocab - 1)], dim=2).flatten(1)
        positions = torch.arange(1, self.length, 2, device=stream.device).expand_as(key)
        answers = values_of(self.map, self.keys, self.vocab - 1 - self.keys).to(stream.device)[key]
        return Batch(tokens, positions, answers, query=positions - 1)


@cache
def values_of(number: int, keys: int, values: int) -> Tensor:
    """The value token of each key in the map of this number: (keys,)."""
    one = rng.stream(number, "mad_memorization", torch.zeros(1, dtype=torch.int64))
    return keys + one.bijection(values)(torch.arange(keys))[0]
