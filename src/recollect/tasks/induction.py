"""Induction heads (Olsson et al. 2022; in this form Fu et al. 2023 and Gu & Dao 2023).

Random symbols, among them one mark; the row ends with the mark again, and the answer is the symbol that followed it the
first time. It is read at the second mark.
"""

from typing import Literal

import torch
from pydantic import Field

from recollect.rng import Stream
from recollect.tasks.base import MOST, Batch, Task, largest_share

MARK, SYMBOLS = 1, 2
"""Token ids of the mark and of the first symbol; 0 pads."""


class Induction(Task):
    """Induction: what followed the mark the first time?"""

    kind: Literal["induction"] = "induction"
    length: int = Field(default=256, ge=3, le=MOST)
    """Tokens in a row, both marks included."""
    symbols: int = Field(default=16, ge=2, le=MOST)
    """Different symbols."""

    @property
    def vocabulary(self) -> int:
        return SYMBOLS + self.symbols

    @property
    def row_length(self) -> int:
        return self.length

    @property
    def chance(self) -> float:
        """The symbol that is most frequent in the row."""
        return largest_share(max(1, self.length - 3), self.symbols)

    def word(self, token: int) -> str:
        return ("·", "mark")[token] if token < SYMBOLS else f"s{token - SYMBOLS}"

    def sample(self, stream: Stream) -> Batch:
        place = stream.integers(1, 0, self.length - 2)  # (rows, 1), the first mark
        tokens = stream.integers(self.length, SYMBOLS, SYMBOLS + self.symbols)
        tokens.scatter_(1, place, MARK)
        tokens[:, -1] = MARK
        positions, source = torch.full_like(place, self.length - 1), place + 1
        answers = tokens.gather(1, source)
        return Batch(tokens, positions, answers, query=positions, source=source, tags={"gap": positions - place})
