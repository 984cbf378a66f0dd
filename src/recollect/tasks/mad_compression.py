"""Compression as in MAD (Poli et al. 2024): random tokens, then a mark, at which all of them are recalled.

Every token, the mark included, is an answer, and all are read at the mark: a model with `head: autoencoder` distinguishes
them by their number. No other head can.
"""

from typing import ClassVar, Literal

import torch
from pydantic import Field

from recollect.rng import Stream
from recollect.tasks.base import MOST, AnswersTask, Batch, largest_share


class MADCompression(AnswersTask):
    """MAD's compression: all tokens of the row, read from the output at its last token."""

    kind: Literal["mad_compression"] = "mad_compression"
    length: int = Field(default=32, ge=2, le=MOST)
    """Tokens in a row, the mark included."""
    vocab: int = Field(default=16, ge=3, le=MOST)
    """Token ids; the last is the mark."""

    reads_at_once: ClassVar[bool] = True

    @property
    def chance(self) -> float:
        """The accuracy of guessing the row's most frequent token."""
        return largest_share(self.length - 1, self.vocab - 1) * (1 - 1 / self.length)

    def lexicon(self) -> dict[str, range]:
        return {"{}": range(self.vocab - 1), "mark": range(1)}

    def sample(self, stream: Stream) -> Batch:
        tokens = stream.integers(self.length, 0, self.vocab - 1)
        tokens[:, -1] = self.vocab - 1
        position = torch.arange(self.length, device=stream.device).expand(stream.rows, -1)
        last = torch.full_like(position, self.length - 1)
        source = position.where(position < last, -1)
        return Batch(tokens, last, tokens.clone(), query=last[:, :1], source=source, tags={"position": position})
