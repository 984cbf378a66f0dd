"""Compression as in MAD (Poli et al. 2024): random tokens, then a mark, at which all tokens are to be recalled.

Every token, the mark included, is an answer, and all are read at the mark: a model with `head: autoencoder` distinguishes
them by their number. No other head can.
"""

from typing import ClassVar, Literal

import torch
from pydantic import Field

from recollect.rng import Stream
from recollect.tasks.base import MOST, Batch, Task, largest_share


class MADCompression(Task):
    """MAD's compression: all tokens of the row from the output at its last."""

    kind: Literal["mad_compression"] = "mad_compression"
    length: int = Field(default=32, ge=2, le=MOST)
    """Tokens in a row, the mark included."""
    vocab: int = Field(default=16, ge=3, le=MOST)
    """Token ids; the last is the mark."""

    accuracy: ClassVar[Literal["answers", "rows"]] = "answers"
    reads_at_once: ClassVar[bool] = True

    @property
    def vocabulary(self) -> int:
        return self.vocab

    @property
    def row_length(self) -> int:
        return self.length

    @property
    def chance(self) -> float:
        """The token that is most frequent in the row."""
        return largest_share(self.length - 1, self.vocab - 1) * (1 - 1 / self.length)

    def word(self, token: int) -> str:
        return "mark" if token == self.vocab - 1 else str(token)

    def sample(self, stream: Stream) -> Batch:
        tokens = stream.integers(self.length, 0, self.vocab - 1)
        tokens[:, -1] = self.vocab - 1
        place = torch.arange(self.length, device=stream.device).expand(stream.rows, -1)
        last = torch.full_like(place, self.length - 1)
        source = place.where(place < last, -1)
        return Batch(tokens, last, tokens.clone(), query=last[:, :1], source=source, tags={"position": place})
