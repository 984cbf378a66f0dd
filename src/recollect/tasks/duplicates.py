"""Duplicate queries: which of several right answers does an n-gram model give (Pantazopoulos et al. 2026)?

The sequence is cut into equal segments; the same query n-gram occurs once in each, at a uniform position, each time before
a different k-gram. The model decodes k tokens greedily. Error rate: the share that match no segment's k-gram.
Preference rate of a segment: the share that match its k-gram. Formats and vocabulary are the clean n-gram task's.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from recollect.rng import Stream
from recollect.tasks.base import MOST, Batch, Task, redrawn
from recollect.tasks.ngram import CLEAN, SYMBOLS, clean_lexicon, lay_out, occurrences, too_many_repeats, window


class Duplicates(Task):
    """Duplicate queries: the query occurs once in each segment. It evaluates a model trained on `ngram`."""

    kind: Literal["duplicates"] = "duplicates"
    n: int = Field(default=2, ge=1)
    """Tokens of the query."""
    k: int = Field(default=3, ge=1)
    """Tokens of an answer."""
    length: int = Field(default=100, ge=2, le=MOST)
    """Symbols in the sequence, rounded down to a multiple of `segments`."""
    segments: int = Field(default=2, ge=2)
    """Equal parts of the sequence; the query occurs once in each."""
    symbols: int = Field(default=30, ge=2, le=MOST)
    """Different symbols."""
    query: Literal["suffix", "prefix"] = "suffix"
    """Whether the query comes after the sequence or before it."""
    variant: Literal["clean", "released"] = "clean"
    """`clean`: the query occurs nowhere else. `released`: as in the released sampler, it may by chance, and what
    follows it there is scored as an error; its symbols differ, it never starts at the last position of a segment that
    leaves room for the answer, and with its answer it occurs once in its segment."""

    def _refusal(self) -> str | None:
        if self._starts < 1:
            more = " + 1 in the variant released" if self.variant == "released" else ""
            return (
                f"a segment of length {self.length} / segments {self.segments} = {self.segment} tokens "
                f"cannot hold n + k{more} = {self.segment - self._starts + 1} tokens"
            )
        if self.variant == "released" and self.n > self.symbols:
            return f"a query of n = {self.n} different symbols, but there are only {self.symbols}"
        answers, need = self.symbols**self.k, 2 * self.segments**2
        if answers < need:
            return f"symbols ** k = {answers} different answers are too few for segments {self.segments}, which need {need}"
        return too_many_repeats(self.length, self.n, self.symbols) if self.variant == "clean" else None

    @property
    def segment(self) -> int:
        """Tokens of a segment."""
        return self.length // self.segments

    @property
    def _starts(self) -> int:
        """The number of positions of a segment at which the query can start."""
        return self.segment - self.n - self.k + (self.variant == "clean")

    @property
    def row_length(self) -> int:
        return self.segment * self.segments + self.n + self.k + 3

    @property
    def chance(self) -> float:
        """The accuracy of guessing any string of k symbols that can follow the query."""
        return 1.0 / self._starts

    def lexicon(self) -> dict[str, range]:
        return clean_lexicon(self.symbols)

    def sample(self, stream: Stream) -> Batch:
        n, k, s, size = self.n, self.k, self.segments, self.segment
        if self.variant == "clean":
            query = stream.integers(n, SYMBOLS, SYMBOLS + self.symbols)  # (rows, n)
        else:
            query = SYMBOLS + stream.bijection(self.symbols)(torch.arange(n, device=stream.device))
        start = stream.integers(s, 0, self._starts) + size * torch.arange(s, device=stream.device)  # (rows, s)
        asked = (start[..., None] + torch.arange(n, device=stream.device)).flatten(1)  # (rows, s x n)

        def draw(stream: Stream, rows: Tensor) -> tuple[Tensor, Tensor]:
            sequence = stream.integers(s * size, SYMBOLS, SYMBOLS + self.symbols)
            sequence.scatter_(1, asked[rows], query[rows].repeat(1, s))
            good = _distinct(window(sequence, start[rows] + n, k).unflatten(1, (s, k)))
            if self.variant == "clean":
                good &= occurrences(sequence, query[rows]).sum(dim=1) == s
            else:
                asked_with_answer = window(sequence, start[rows], n + k).view(-1, n + k)
                good &= (occurrences(sequence.view(-1, size), asked_with_answer).sum(dim=1) == 1).view(-1, s).all(dim=1)
            return sequence, good

        sequence = redrawn(stream, draw)
        candidates = window(sequence, start + n, k).unflatten(1, (s, k))  # (rows, s, k)
        length = torch.full_like(start[:, :1], s * size)
        batch = lay_out(CLEAN[self.query], sequence, length, query, candidates[:, -1], start[:, -1:] + n)
        batch.candidates = candidates
        return batch


def _distinct(grams: Tensor) -> Tensor:
    """Whether no two of each row's k-grams (rows, s, k) are the same: (rows,), bool."""
    same = (grams[:, :, None] == grams[:, None]).all(dim=-1)  # (rows, s, s)
    return same.sum(dim=(1, 2)) == grams.shape[1]
