"""Associative recall (Ba et al. 2016; Fu et al. 2023), the ancestor of MQAR.

A row is `k1 v1 .. kK vK q`: K distinct keys, each with its value, then one of the keys. The answer is read at `q`.
"""

from typing import Literal

import torch
from pydantic import Field

from recollect.rng import Stream
from recollect.tasks.base import MOST, Batch
from recollect.tasks.pairs import PairsTask, Roles


class AR(PairsTask):
    """Associative recall: K key-value pairs, then one key is queried."""

    kind: Literal["ar"] = "ar"
    pairs: int = Field(default=16, ge=1)
    """Key-value pairs in a row (K)."""
    vocab: int = Field(default=50, ge=4, le=MOST, multiple_of=2)
    """Token ids. 0 is blank, keys are 1 .. vocab/2-1, values vocab/2 .. vocab-1."""
    roles: Roles = "split"
    """`split`: keys and values from the two halves of the vocabulary. `shared`: both from all of it."""

    @property
    def row_length(self) -> int:
        return 2 * self.pairs + 1

    def sample(self, stream: Stream) -> Batch:
        K = self.pairs
        _, keys, values = self._draw_pairs(stream, K)
        asked = stream.integers(1, 0, K)  # (rows, 1)
        tokens = torch.cat([torch.stack([keys, values], dim=2).flatten(1), keys.gather(1, asked)], dim=1)
        positions = torch.full_like(asked, 2 * K)
        return self._queried(tokens, positions, values.gather(1, asked), asked, 2 * asked + 1)
