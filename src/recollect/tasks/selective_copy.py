"""Selective copying (Jing et al. 2019; Gu & Dao 2023).

A few symbols at random positions among blanks, then as many marks. At each mark the next symbol is read, in their order. The
spacing is random, so a fixed filter cannot solve it. The answers are never fed.

MAD's selective copying (`mad_selective_copy`) differs: it has one mark and then blanks, and never a blank between the last
symbol and the mark.
"""

from typing import Literal

import torch
from pydantic import Field

from recollect.rng import Stream
from recollect.tasks.base import MOST, AnswersTask, Batch, largest_share
from recollect.tasks.induction import MARK, SYMBOLS


class SelectiveCopy(AnswersTask):
    """Selective copying: the symbols among the blanks, in order. (MAD's is `mad_selective_copy`.)"""

    kind: Literal["selective_copy"] = "selective_copy"
    length: int = Field(default=256, ge=2, le=MOST)
    """Tokens in the context, before the marks."""
    items: int = Field(default=16, ge=1)
    """Symbols to remember."""
    symbols: int = Field(default=16, ge=2, le=MOST)
    """Different symbols."""

    def _refusal(self) -> str | None:
        if self.items > self.length:
            return f"items {self.items} do not fit length {self.length}"
        return None

    @property
    def row_length(self) -> int:
        return self.length + self.items

    @property
    def chance(self) -> float:
        """The accuracy of guessing the row's most frequent symbol."""
        return largest_share(self.items, self.symbols)

    def lexicon(self) -> dict[str, range]:
        return {"·": range(1), "mark": range(1), "s{}": range(self.symbols)}

    def sample(self, stream: Stream) -> Batch:
        item = torch.arange(self.items, device=stream.device).expand(stream.rows, -1)
        source = stream.bijection(self.length)(item).sort(dim=1).values  # (rows, items)
        answers = stream.integers(self.items, SYMBOLS, SYMBOLS + self.symbols)
        tokens = torch.zeros(stream.rows, self.row_length, dtype=torch.int64, device=stream.device)
        tokens.scatter_(1, source, answers)
        tokens[:, self.length :] = MARK
        positions = self.length + item
        return Batch(tokens, positions, answers, source=source, tags={"gap": positions - source, "item": item})
