"""Parity (Hahn 2020; in this form Beck et al. 2024 and Grazzi et al. 2025): is the number of ones odd?

A row is a string of bits, its length drawn uniformly; the parity is read at the last bit, or, with `labels: all`, that of the
bits so far at each.
"""

from typing import Literal

import torch
from pydantic import Field

from recollect.rng import Stream
from recollect.tasks.base import MOST, AnswersTask, Batch

ZERO = 1
"""The token of the bit 0, and of an even number of ones; the next is that of the bit 1 and of an odd number. 0 pads."""


class Parity(AnswersTask):
    """Parity: whether a string of bits has an odd number of ones."""

    kind: Literal["parity"] = "parity"
    min_length: int = Field(default=3, ge=1)
    """Bits in the shortest string."""
    length: int = Field(default=40, ge=1, le=MOST)
    """Bits in the longest string; lengths are uniform between the two."""
    labels: Literal["last", "all"] = "last"
    """Where the parity of the bits so far is read: at the last bit, or at each."""

    def _refusal(self) -> str | None:
        if self.min_length > self.length:
            return f"min_length {self.min_length} must be at most length {self.length}"
        return None

    @property
    def chance(self) -> float:
        """Even or odd."""
        return 0.5

    def lexicon(self) -> dict[str, range]:
        return {"·": range(1), "{}": range(2)}

    def sample(self, stream: Stream) -> Batch:
        length = stream.integers(1, self.min_length, self.length + 1)  # (rows, 1)
        bits = stream.integers(self.length, 0, 2)
        position = torch.arange(self.length, device=stream.device).expand(stream.rows, -1)
        parity, inside = ZERO + bits.cumsum(dim=1) % 2, position < length
        trained = inside
        if self.labels == "last":
            position, parity = length - 1, parity.gather(1, length - 1)
            trained = torch.ones_like(length, dtype=torch.bool)
        return Batch.padded((ZERO + bits).where(inside, 0), position, parity, trained, tags={"position": position})
