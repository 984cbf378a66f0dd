"""N-gram retrieval (Pantazopoulos et al. 2026, "Retrievit"; Jelassi et al. 2024).

A sequence of i.i.d. symbols, and a query n-gram that occurs in it; the answer is the k tokens that follow it there.

    clean    suffix  bos seq bos query q1 q2 query   -> a1 a2 a3       the query occurs once in the sequence
             prefix  query q1 q2 bos seq bos query   -> a1 a2 a3
    jelassi  suffix  $ seq | q1 q2                   -> a1 a2 a3 .     the query may occur again: the first one counts
             prefix  $ q1 q2 | seq |                 -> a1 a2 a3 .

Each answer is predicted from the token before it. The full stop counts in the loss, not in the accuracy. As in the code
of Jelassi et al., the query of their variant never starts at the last three positions that leave room for the answer, some
n-gram before those is unique in its sequence, and a training context can be filled with several examples.
"""

from math import exp
from string import ascii_letters
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import pad

from recollect.rng import Stream
from recollect.tasks.base import MOST, Batch, Task, largest_share, redrawn
from recollect.tasks.copy import ALPHABET, END, LETTERS, SEPARATOR, START
from recollect.tasks.packing import packed

BOS, QUERY, SYMBOLS = 1, 2, 3
"""Token ids of the specials and of the first symbol; 0 pads."""
Format = tuple[list[int | None], list[int | None]]
"""The tokens before the sequence, and those between it and the answer; None marks the query."""
CLEAN: dict[str, Format] = {
    "suffix": ([BOS], [BOS, QUERY, None, QUERY]),
    "prefix": ([QUERY, None, BOS], [BOS, QUERY]),
}
_JELASSI: dict[str, Format] = {
    "suffix": ([START], [SEPARATOR, None]),
    "prefix": ([START, None, SEPARATOR], [SEPARATOR]),
}
_MOST_REPEATS = 3.0  # of the query by chance: about one sequence in 20 is still free of them
_FEWEST_GOOD = 0.05  # the share of rows drawn whose sequences each have a unique n-gram
_NEVER_ASKED = 3  # last positions at which the query of the variant `jelassi` never starts


class NGram(Task):
    """N-gram retrieval: the k tokens that follow the query n-gram in the sequence."""

    kind: Literal["ngram"] = "ngram"
    n: int = Field(default=2, ge=1)
    """Tokens of the query."""
    k: int = Field(default=3, ge=1)
    """Tokens of the answer."""
    min_length: int = Field(default=50, ge=2)
    """Symbols in the shortest training sequence."""
    length: int = Field(default=100, ge=2, le=MOST)
    """Symbols in the longest training sequence, and in every test sequence; training lengths are uniform."""
    symbols: int | None = Field(default=None, ge=2, le=MOST)
    """Different symbols: 30, and 26 (the letters) in the variant `jelassi`."""
    query: Literal["suffix", "prefix"] = "suffix"
    """Whether the query comes after the sequence or before it."""
    variant: Literal["clean", "jelassi"] = "clean"
    """`clean`: as in Retrievit, the query occurs once. `jelassi`: another format, and the query may occur again; then
    the answer is what follows it the first time."""
    packed: bool = False
    """Fill a training context with several examples (variant `jelassi`); tests always have one example per row."""
    context: int = Field(default=220, ge=5, le=MOST)
    """Tokens in a packed row."""

    def _refusal(self) -> str | None:
        need = self.n + self.k + self._never_asked
        if not need <= self.min_length <= self.length:
            more = " + 3 in the variant jelassi" if self._never_asked else ""
            return (
                f"min_length {self.min_length} must be at least n + k{more} = {need} and at most length {self.length}"
            )
        if self.variant == "clean":
            if refusal := too_many_repeats(self.length, self.n, self.alphabet):
                return refusal
            return "packed is for the variant jelassi; a clean row has one example" if self.packed else None
        if self.alphabet != 26:
            return f"symbols {self.symbols} in the variant jelassi, which has the 26 letters"
        good = self._with_unique()
        if good < _FEWEST_GOOD:
            return (
                f"in {good:.2g} of all rows every sequence of length {self.length} has a unique n-gram of n = {self.n}, "
                f"in fewer than {_FEWEST_GOOD:g}: raise n or shorten length"
            )
        if self.packed and self._example > self.context:
            return f"length {self.length} does not fit context {self.context}: an example has {self._example} tokens"
        return None

    def _with_unique(self) -> float:
        """The share of rows, in the variant `jelassi`, whose sequences all have a unique n-gram; others are drawn again."""
        starts = self.length - self.n - self.k - 1
        unique = starts * (1 - self.alphabet**-self.n) ** (starts - 1)  # expected in a sequence
        return (1 - exp(-unique)) ** self._examples

    @property
    def alphabet(self) -> int:
        """How many different symbols there are."""
        return self.symbols or (26 if self.variant == "jelassi" else 30)

    @property
    def _format(self) -> Format:
        return (_JELASSI if self.variant == "jelassi" else CLEAN)[self.query]

    @property
    def _never_asked(self) -> int:
        return _NEVER_ASKED if self.variant == "jelassi" else 0

    @property
    def _example(self) -> int:
        """Tokens of the longest example, all answers included."""
        return sum(map(len, self._format)) + self.n - 1 + self.length + self.k + (self.variant == "jelassi")

    @property
    def _examples(self) -> int:
        """How many examples fill a row, were all of them the shortest; the last one may be cut off."""
        return -(-self.context // self._shortest) if self.packed else 1

    @property
    def _shortest(self) -> int:
        """Tokens of the shortest example."""
        return self._example - self.length + self.min_length

    @property
    def row_length(self) -> int:
        return self.context if self.packed else self._example - 1  # nothing is read at the last answer

    @property
    def chance(self) -> float:
        """The accuracy of guessing the most frequent of the strings of k symbols that can follow a query."""
        starts = self.length - self.n - self.k + 1 - self._never_asked
        return largest_share(starts, float(self.alphabet) ** min(self.k, 40))

    def lexicon(self) -> dict[str, range]:
        return dict.fromkeys(ALPHABET, range(1)) if self.variant == "jelassi" else clean_lexicon(self.alphabet)

    def for_test(self) -> "NGram":
        return self.changed(min_length=self.length, packed=False)

    def sample(self, stream: Stream) -> Batch:
        sequence, length, start = self._sequences(stream)
        query = window(sequence, start, self.n)
        if self.variant == "clean":
            answers = window(sequence, start + self.n, self.k)
            batch = lay_out(self._format, sequence, length, query, answers, start + self.n)
        else:
            start = occurrences(sequence, query).byte().argmax(dim=1, keepdim=True)  # the first
            answers = torch.cat([window(sequence, start + self.n, self.k), torch.full_like(length, END)], dim=1)
            batch = lay_out(self._format, sequence, length, query, answers, start + self.n)
            batch.source[:, -1] = -1  # the full stop
            batch.scored = batch.source >= 0
        batch.tags = {"place": start, "length": length}
        if not self.packed:
            return batch
        last = batch.positions[:, -1:] + 1  # the position of the full stop
        batch.tokens = pad(batch.tokens, (0, 1)).scatter(1, last, END)
        size = (self._example - self.length + length).view(-1, self._examples)
        return packed(batch, size, self.context, answers=self.context // self._shortest * (self.k + 1))

    def _sequences(self, stream: Stream) -> tuple[Tensor, Tensor, Tensor]:
        """Sequences (rows x examples, longest), their lengths and where their queries start, each (rows x examples, 1)."""
        first, n = LETTERS if self.variant == "jelassi" else SYMBOLS, self._examples
        lengths = stream.integers(n, self.min_length, self.length + 1)  # (rows, examples)
        starts = (stream.uniform(n) * (lengths - self.n - self.k + 1 - self._never_asked)).long()
        column = torch.arange(self.length, device=stream.device)

        def draw(stream: Stream, rows: Tensor) -> tuple[Tensor, Tensor]:
            length, start = lengths[rows].view(-1, 1), starts[rows].view(-1, 1)
            sequence = stream.integers(n * self.length, first, first + self.alphabet).view(-1, self.length)
            sequence.masked_fill_(column >= length, 0)
            if self.variant == "clean":
                good = occurrences(sequence, window(sequence, start, self.n)).sum(dim=1) == 1
            else:
                good = _has_unique(sequence, self.n, length - self.n - self.k - 1)
            return sequence.view(-1, n * self.length), good.view(-1, n).all(dim=1)

        return redrawn(stream, draw).view(-1, self.length), lengths.view(-1, 1), starts.view(-1, 1)


def _has_unique(sequence: Tensor, n: int, starts: Tensor) -> Tensor:
    """Whether one of the n-grams at the first `starts` (rows, 1) positions is the only one of its kind: (rows,)."""
    code = torch.zeros_like(sequence[:, n - 1 :])
    for i in range(n):
        code = code * 32 + sequence[:, i : i + code.shape[1]]
    column = torch.arange(code.shape[1], device=code.device)
    code = code.where(column < starts, -1).sort(dim=1).values
    differs = pad(code[:, 1:] != code[:, :-1], (1, 1), value=True)  # from the code before it
    return (differs[:, :-1] & differs[:, 1:] & (code >= 0)).any(dim=1)


def window(x: Tensor, start: Tensor, n: int) -> Tensor:
    """The `n` tokens of each row from `start` (rows, any): (rows, any x n)."""
    index = start[..., None] + torch.arange(n, device=x.device)
    return x.gather(1, index.flatten(1))


def occurrences(sequence: Tensor, query: Tensor) -> Tensor:
    """Where in each row the n-gram `query` (rows, n) starts: (rows, length - n + 1), bool."""
    n, starts = query.shape[1], sequence.shape[1] - query.shape[1] + 1
    same = sequence[:, :starts] == query[:, :1]
    for i in range(1, n):
        same &= sequence[:, i : i + starts] == query[:, i : i + 1]
    return same


def lay_out(form: Format, sequence: Tensor, length: Tensor, query: Tensor, answers: Tensor, source: Tensor) -> Batch:
    """Rows of a format: `sequence` (rows, longest) of `length` (rows, 1), whose answers start at `source` (rows, 1)."""
    head, lead = form
    device, n = sequence.device, query.shape[1]

    def marks(form: list[int | None]) -> list[Tensor]:
        return [query if mark is None else torch.full_like(query[:, :1], mark) for mark in form]

    before, after = torch.cat(marks(head), dim=1), torch.cat([*marks(lead), answers[:, :-1]], dim=1)
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
        source=before.shape[1] + source + answer,
    )


def too_many_repeats(length: int, n: int, symbols: int) -> str | None:
    """A refusal where chance repeats of the query are so many that hardly a sequence is free of them."""
    repeats = (length - n) / symbols**n
    if repeats <= _MOST_REPEATS:
        return None
    return (
        f"among {symbols} symbols a query of n = {n} occurs {repeats:.1f} times more by chance in length {length}, so it is "
        f"hardly ever unique (at most {_MOST_REPEATS:g}): raise n or symbols, or shorten length"
    )


def clean_lexicon(symbols: int) -> dict[str, range]:
    """The tokens of the clean format: the specials, then so many symbols, as letters while there are any."""
    named = ("·", "bos", "qry", *ascii_letters[:symbols])
    return dict.fromkeys(named, range(1)) | {"s{}": range(len(ascii_letters), symbols)}
