"""N-gram retrieval (Pantazopoulos et al. 2026, "Retrievit"; Jelassi et al. 2024).

A sequence of i.i.d. symbols, and a query n-gram that stands in it; the answer is the k tokens that follow it there.

    clean    suffix  bos seq bos query q1 q2 query   -> a1 a2 a3       the query occurs once in the sequence
             prefix  query q1 q2 bos seq bos query   -> a1 a2 a3
    jelassi  suffix  $ seq | q1 q2                   -> a1 a2 a3 .     the query may occur again
             prefix  $ q1 q2 | seq |                 -> a1 a2 a3 .

The answers are read one token before they stand. The full stop counts in the loss, not in the accuracy.
"""

from string import ascii_letters
from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from recollect.rng import Stream
from recollect.spec import SpecError
from recollect.tasks.base import Batch, Task, redrawn
from recollect.tasks.copy import ALPHABET, END, LETTERS, SEPARATOR, START

BOS, QUERY, SYMBOLS = 1, 2, 3
"""Token ids of the specials and of the first symbol; 0 pads."""
Format = tuple[list[int | None], list[int | None]]
"""What stands before the sequence, and between it and the answer; None is the place of the query."""
CLEAN: dict[str, Format] = {
    "suffix": ([BOS], [BOS, QUERY, None, QUERY]),
    "prefix": ([QUERY, None, BOS], [BOS, QUERY]),
}
_JELASSI: dict[str, Format] = {
    "suffix": ([START], [SEPARATOR, None]),
    "prefix": ([START, None, SEPARATOR], [SEPARATOR]),
}
_MOST_REPEATS = 3.0  # of the query by chance: about one sequence in 20 is still free of them


class NGram(Task):
    """N-gram retrieval: the k tokens that follow the query n-gram in the sequence."""

    kind: Literal["ngram"] = "ngram"
    n: int = Field(default=2, ge=1)
    """Tokens of the query."""
    k: int = Field(default=3, ge=1)
    """Tokens of the answer."""
    min_length: int = Field(default=50, ge=2)
    """Symbols in the shortest training sequence."""
    length: int = Field(default=100, ge=2)
    """Symbols in the longest training sequence, and in every test sequence; training lengths are uniform."""
    symbols: int | None = Field(default=None, ge=2)
    """Different symbols: 30, and 26 (the letters) in the variant `jelassi`."""
    query: Literal["suffix", "prefix"] = "suffix"
    """Where the query stands: after the sequence, or before it."""
    variant: Literal["clean", "jelassi"] = "clean"
    """`clean`: as in Retrievit, the query occurs once. `jelassi`: another format, and the query may occur again."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if not self.n + self.k <= self.min_length <= self.length:
            raise SpecError(
                f"ngram: min_length {self.min_length} must be at least n + k = {self.n + self.k} "
                f"and at most length {self.length}"
            )
        if self.variant == "jelassi" and self.symbols not in (None, 26):
            raise SpecError(f"ngram: symbols {self.symbols} in the variant jelassi, which has the 26 letters")
        if self.variant == "clean":
            refuse_repeats("ngram", self.length, self.n, self.alphabet)
        return self

    @property
    def alphabet(self) -> int:
        """How many different symbols there are."""
        return self.symbols or (26 if self.variant == "jelassi" else 30)

    @property
    def vocabulary(self) -> int:
        return (LETTERS if self.variant == "jelassi" else SYMBOLS) + self.alphabet

    @property
    def _format(self) -> Format:
        return (_JELASSI if self.variant == "jelassi" else CLEAN)[self.query]

    @property
    def row_length(self) -> int:
        head, lead = self._format
        fed = self.k - 1 if self.variant == "clean" else self.k  # nothing is read at the last answer
        return len(head) + self.length + len(lead) + self.n - 1 + fed

    @property
    def chance(self) -> float:
        return float(self.alphabet) ** -self.k

    def word(self, token: int) -> str:
        return ALPHABET[token] if self.variant == "jelassi" else symbol_word(token)

    def for_test(self) -> "NGram":
        return self.changed(min_length=self.length)

    def sample(self, stream: Stream) -> Batch:
        n, first = self.n, LETTERS if self.variant == "jelassi" else SYMBOLS
        length = stream.integers(1, self.min_length, self.length + 1)  # (rows, 1)
        place = (stream.uniform(1) * (length - n - self.k + 1)).long()  # (rows, 1), where the query starts
        column = torch.arange(self.length, device=stream.device)

        def draw(stream: Stream, rows: Tensor) -> tuple[Tensor, Tensor]:
            sequence = stream.integers(self.length, first, first + self.alphabet)
            sequence.masked_fill_(column >= length[rows], 0)
            if self.variant == "jelassi":
                return sequence, torch.ones_like(rows, dtype=torch.bool)
            return sequence, occurrences(sequence, window(sequence, place[rows], n)).sum(dim=1) == 1

        sequence = redrawn(stream, draw)
        query, answers = window(sequence, place, n), window(sequence, place + n, self.k)
        if self.variant == "jelassi":
            answers = torch.cat([answers, torch.full_like(length, END)], dim=1)
        batch = lay_out(self._format, sequence, length, query, answers, place + n)
        if self.variant == "jelassi":
            batch.source[:, -1] = -1  # the full stop
            batch.scored = batch.source >= 0
        batch.tags = {"place": place, "length": length}
        return batch


def window(x: Tensor, start: Tensor, n: int) -> Tensor:
    """The `n` tokens of each row from `start` (rows, any): (rows, any x n)."""
    index = start[..., None] + torch.arange(n, device=x.device)
    return x.gather(1, index.flatten(1))


def occurrences(sequence: Tensor, query: Tensor) -> Tensor:
    """Where in each row the n-gram `query` (rows, n) starts: (rows, length - n + 1), bool."""
    n, starts = query.shape[1], sequence.shape[1] - query.shape[1] + 1
    found = sequence[:, :starts] == query[:, :1]
    for i in range(1, n):
        found &= sequence[:, i : i + starts] == query[:, i : i + 1]
    return found


def lay_out(form: Format, sequence: Tensor, length: Tensor, query: Tensor, answers: Tensor, found: Tensor) -> Batch:
    """Rows of a format: `sequence` (rows, longest) of `length` (rows, 1), the answers at `found` (rows, 1) in it."""
    head, lead = form
    device, n = sequence.device, query.shape[1]
    before, after = _with_query(head, query), torch.cat([_with_query(lead, query), answers[:, :-1]], dim=1)
    tokens = torch.cat([before, sequence, torch.zeros_like(after)], dim=1)
    end = before.shape[1] + length  # (rows, 1), one past the sequence
    tokens.scatter_(1, end + torch.arange(after.shape[1], device=device), after)

    answer = torch.arange(answers.shape[1], device=device)
    asked = head.index(None) + torch.zeros_like(end) if None in head else end + lead.index(None)
    return Batch(
        tokens=tokens,
        positions=end + after.shape[1] - len(answer) + answer,
        answers=answers,
        query=asked + torch.arange(n, device=device),
        source=before.shape[1] + found + answer,
    )


def _with_query(marks: list[int | None], query: Tensor) -> Tensor:
    return torch.cat([query if mark is None else torch.full_like(query[:, :1], mark) for mark in marks], dim=1)


def refuse_repeats(task: str, length: int, n: int, symbols: int) -> None:
    """An error where chance repeats of the query are so many that hardly a sequence is free of them."""
    repeats = (length - n) / symbols**n
    if repeats > _MOST_REPEATS:
        raise SpecError(
            f"{task}: among {symbols} symbols a query of n = {n} occurs {repeats:.1f} times more by chance in length "
            f"{length}, so it is hardly ever unique (at most {_MOST_REPEATS:g}): raise n or symbols, or shorten length"
        )


def symbol_word(token: int) -> str:
    """A token of the clean format as a person would read it."""
    if token < SYMBOLS:
        return ("·", "bos", "qry")[token]
    return ascii_letters[token - SYMBOLS] if token < SYMBOLS + len(ascii_letters) else f"s{token - SYMBOLS}"
