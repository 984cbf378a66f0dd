"""Induction heads (Olsson et al. 2022; in this form Fu et al. 2023 and Gu & Dao 2023).

Random symbols with one mark among them. The row ends with a second mark; the answer, the symbol that followed the first one, is
read there.
"""

from typing import Literal

import torch
from pydantic import Field

from recollect.rng import Stream
from recollect.tasks.base import MOST, Batch, Task, largest_share

MARK, SYMBOLS = 1, 2
"""Token ids of the mark and of the first symbol; 0 pads."""


class Induction(Task):
    """Induction: the symbol that followed the first mark."""

    kind: Literal["induction"] = "induction"
    length: int = Field(default=256, ge=3, le=MOST)
    """Tokens in a row, both marks included."""
    symbols: int = Field(default=16, ge=2, le=MOST)
    """Different symbols."""

    @property
    def chance(self) -> float:
        """The accuracy of guessing the row's most frequent symbol."""
        return largest_share(max(1, self.length - 3), self.symbols)

    def lexicon(self) -> dict[str, range]:
        return {"·": range(1), "mark": range(1), "s{}": range(self.symbols)}

    def sample(self, stream: Stream) -> Batch:
        first = stream.integers(1, 0, self.length - 2)  # (rows, 1), the first mark
        tokens = stream.integers(self.length, SYMBOLS, SYMBOLS + self.symbols)
        tokens.scatter_(1, first, MARK)
        tokens[:, -1] = MARK
        positions, source = torch.full_like(first, self.length - 1), first + 1
        answers = tokens.gather(1, source)
        return Batch(tokens, positions, answers, source=source, tags={"gap": positions - first})
