"""Position retrieval (Pantazopoulos et al. 2026, "Retrievit"): at which position of the sequence is a symbol?

    suffix  bos seq query x | p_t bos
    prefix  query x bos seq | p_t bos

`p_t` is a token of its own for position t. Both tokens after the bar are read, and only `p_t` counts in the accuracy. A
model that guesses has a loss of log(length) there and none at `bos`: a mean loss of log(length) / 2.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from recollect.rng import Stream
from recollect.tasks.base import MOST, Batch, Task
from recollect.tasks.ngram import BOS, QUERY, SYMBOLS, Format, lay_out

_FORMATS: dict[str, Format] = {"suffix": ([BOS], [QUERY, None]), "prefix": ([QUERY, None, BOS], [])}


class Position(Task):
    """Position retrieval: the token of the queried symbol's position."""

    kind: Literal["position"] = "position"
    length: int = Field(default=200, ge=2, le=MOST)
    """Symbols in the sequence, and position tokens."""
    symbols: int | None = Field(default=None, ge=2, le=MOST)
    """Different symbols: as many as the sequence is long, and 30 in the variant `sampled`."""
    query: Literal["suffix", "prefix"] = "suffix"
    """Whether the query comes after the sequence or before it."""
    variant: Literal["permutation", "sampled"] = "permutation"
    """`permutation`: as in the paper's text, no symbol occurs twice. `sampled`: as the released scripts run it, symbols
    are drawn with replacement, and only the queried one is unique; there are still as many symbol ids as positions."""

    def _refusal(self) -> str | None:
        if self.variant == "permutation" and self.alphabet < self.length:
            return f"symbols {self.symbols} are too few for a permutation of length {self.length}"
        return None

    @property
    def alphabet(self) -> int:
        """How many different symbols there are."""
        return self.symbols or (30 if self.variant == "sampled" else self.length)

    @property
    def row_length(self) -> int:
        return self.length + 4

    @property
    def chance(self) -> float:
        """The accuracy of guessing any position."""
        return 1.0 / self.length

    @property
    def remembered(self) -> range:
        """The position tokens, which are the last."""
        return range(self.vocabulary - self.length, self.vocabulary)

    def lexicon(self) -> dict[str, range]:
        symbols = range(max(self.alphabet, self.length))
        return {**dict.fromkeys(("·", "bos", "qry"), range(1)), "s{}": symbols, "p{}": range(self.length)}

    def sample(self, stream: Stream) -> Batch:
        where = stream.integers(1, 0, self.length)  # (rows, 1)
        sequence = SYMBOLS + self._symbols(stream, where)  # (rows, length)
        asked = sequence.gather(1, where)
        answer = self.remembered.start + where
        answers = torch.cat([answer, torch.full_like(where, BOS)], dim=1)
        batch = lay_out(_FORMATS[self.query], sequence, torch.full_like(where, self.length), asked, answers, where)
        batch.source.fill_(-1)  # no token of the sequence is the answer
        batch.scored, batch.tags = answers != BOS, {"position": where}
        return batch

    def _symbols(self, stream: Stream, where: Tensor) -> Tensor:
        """The symbols of the sequence, the one at `where` occurring only there: (rows, length)."""
        if self.variant == "permutation":
            return stream.bijection(self.alphabet)(torch.arange(self.length, device=stream.device))
        asked = stream.integers(1, 0, self.alphabet)
        others = stream.integers(self.length, 0, self.alphabet - 1)
        others += others >= asked  # every symbol but the queried one
        return others.scatter(1, where, asked)
