"""Selective copying as in MAD (Poli et al. 2024): tokens among blanks, then a mark, then as many blanks as tokens.

Each blank is inserted right before an item that is drawn uniformly, so there is none between the last item and the mark. The
items are read in order at the blanks after the mark, and are never fed. MAD draws the positions of the blanks from a generator
that its seed does not fix; here they are part of the row.
"""

from typing import Literal

import torch
from pydantic import Field

from recollect.rng import Stream
from recollect.tasks.base import MOST, AnswersTask, Batch, largest_share


class MADSelectiveCopy(AnswersTask):
    """MAD's selective copying: the tokens among the blanks, in order."""

    kind: Literal["mad_selective_copy"] = "mad_selective_copy"
    length: int = Field(default=256, ge=4, le=MOST)
    """Tokens in a row."""
    items: int = Field(default=16, ge=1)
    """Tokens to copy."""
    vocab: int = Field(default=16, ge=3, le=MOST)
    """Token ids; the last is the mark, the one before it the blank."""

    def _refusal(self) -> str | None:
        least = 2 * self.items + 1
        return None if self.length > least else f"length {self.length} must exceed 2 x items + 1 = {least}"

    @property
    def chance(self) -> float:
        """The accuracy of guessing the most frequent item."""
        return largest_share(self.items, self.vocab - 2)

    def lexicon(self) -> dict[str, range]:
        return {"{}": range(self.vocab - 2), "-": range(1), "mark": range(1)}

    def sample(self, stream: Stream) -> Batch:
        answers = stream.integers(self.items, 0, self.vocab - 2)  # (rows, items)
        # the item that each blank is inserted before
        before = stream.integers(self.length - 2 * self.items - 1, 0, self.items)
        blanks = torch.zeros_like(answers).scatter_add(1, before, torch.ones_like(before))
        item = torch.arange(self.items, device=stream.device).expand_as(answers)
        source = item + blanks.cumsum(dim=1)
        tokens = torch.full((stream.rows, self.length), self.vocab - 2, device=stream.device)
        tokens.scatter_(1, source, answers)
        tokens[:, -self.items - 1] = self.vocab - 1
        positions = self.length - self.items + item
        return Batch(tokens, positions, answers, source=source, tags={"gap": positions - source, "item": item})
