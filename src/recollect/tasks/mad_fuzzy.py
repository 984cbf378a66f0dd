"""Fuzzy recall as in MAD (Poli et al. 2024): keys and values are motifs of several tokens.

A motif has 1 to 3 different tokens. Sizes are uniform, except that in test rows every key has the largest. Motifs are drawn with
replacement, and a key has the same value throughout a row. One pair, at a random position, is repeated at the end: the query.
Rows are padded on the left with the last token id. The loss counts every next token; the accuracy counts the tokens of a value
whose key has occurred before.

MAD draws the position of the queried pair a few tokens too late, so that about one row in a hundred does not contain it; here
every row does.
"""

from functools import cached_property
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from recollect.rng import Stream
from recollect.tasks.base import MOST, AnswersTask, Batch
from recollect.tasks.mad_recall import every_next, most_frequent_share
from recollect.tasks.pairs import Motifs


class MADFuzzy(AnswersTask):
    """MAD's fuzzy recall: keys and values of several tokens; the value of a key that occurred earlier in the row."""

    kind: Literal["mad_fuzzy"] = "mad_fuzzy"
    length: int = Field(default=128, ge=4, le=MOST)
    """Tokens in a row, padding included."""
    vocab: int = Field(default=16, ge=4, le=2**16)
    """Token ids: those of keys, those of values, and the padding as the last."""
    key_size: int = Field(default=3, ge=1, le=3)
    """Tokens of the largest key."""
    value_size: int = Field(default=3, ge=1, le=3)
    """Tokens of the largest value."""
    largest_keys: bool = False
    """Whether every key has the largest size, as in test rows."""

    def _refusal(self) -> str | None:
        largest, least = max(self.key_size, self.value_size), 3 * (self.key_size + self.value_size)
        if largest > self.letters:
            return f"vocab {self.vocab} has {self.letters} key tokens, too few for motifs of {largest}"
        if self.length < least:
            return f"length {self.length} must be at least 3 x (key_size + value_size) = {least}"
        return None

    @property
    def letters(self) -> int:
        """Key tokens; there are as many value tokens, or one more."""
        return (self.vocab - 1) // 2

    @cached_property
    def chance(self) -> float:
        """The accuracy of guessing the row's most frequent value token, in 2,048 test rows."""
        batch = self.for_test().batch(0, "chance", 2048)
        return most_frequent_share(batch, batch.answers, self.letters, self.vocab - 1)

    def lexicon(self) -> dict[str, range]:
        return {"k{}": range(self.letters), "v{}": range(self.vocab - 1 - self.letters), "pad": range(1)}

    def for_test(self) -> "MADFuzzy":
        return self.changed(largest_keys=True)

    def sample(self, stream: Stream) -> Batch:
        smallest = 1 + (self.key_size if self.largest_keys else 1)
        pairs = self.length // smallest  # more than fit in a row
        keys = self._draw(stream, 1 + pairs, 0, self.letters, self.key_size, self.largest_keys)
        values = self._draw(stream, 1 + pairs, self.letters, self.vocab - 1 - self.letters, self.value_size)
        share = stream.uniform(1)
        # pair 0 is the queried one; a later pair of the same key has the value of the first
        origin = _first_alike(keys)  # (rows, 1 + pairs)
        values = values.pick(origin)
        queried = keys.size[:, :1] + values.size[:, :1]  # (rows, 1), tokens
        room = self.length - queried - self.key_size - self.value_size  # a pair starts below this
        earliest = (share * (room - self.key_size - self.value_size + 1)).long()
        order, fits = self._order(keys, values, origin, earliest, room)
        order = torch.cat([order, torch.zeros_like(queried)], dim=1)  # the queried pair ends the row
        fits = torch.cat([fits, torch.ones_like(fits[:, :1])], dim=1)
        return self._batch(keys.pick(order), values.pick(order), origin.gather(1, order), fits)

    def _draw(self, stream: Stream, n: int, first: int, letters: int, largest: int, fixed: bool = False) -> Motifs:
        """Motifs of up to `largest` of these letters, none of them twice in a motif."""
        size = stream.integers(n, largest if fixed else 1, largest + 1)
        drawn: list[Tensor] = []
        for i in range(largest):
            letter = stream.integers(n, 0, letters - i)
            for other in torch.stack(drawn, dim=2).sort(dim=2).values.unbind(2) if drawn else ():
                letter = letter + (letter >= other)  # skip the letters that are taken, in order
            drawn.append(letter)
        return Motifs(first + torch.stack(drawn, dim=2), size)

    def _order(
        self, keys: Motifs, values: Motifs, origin: Tensor, earliest: Tensor, room: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The order of the pairs (rows, 1 + pairs), the queried one at `earliest` or soon after, and which of them fit."""
        size = keys.size + values.size
        end = size[:, 1:].cumsum(dim=1)
        start = end - size[:, 1:]  # (rows, pairs), without the queried pair
        # the queried pair comes before the first that starts there or later
        turn = (start < earliest).sum(dim=1, keepdim=True)
        number = torch.arange(size.shape[1], device=size.device).expand_as(size)
        # its key was drawn before, by chance
        early = ((origin[:, 1:] == 0) & (number[:, :-1] < turn)).any(dim=1, keepdim=True)
        turn = torch.where(early, size.shape[1] - 1, turn)
        order = torch.where(number < turn, number + 1, torch.where(number == turn, 0, number))
        length = size.gather(1, order)
        return order, length.cumsum(dim=1) - length < room

    def _batch(self, keys: Motifs, values: Motifs, origin: Tensor, fits: Tensor) -> Batch:
        """Rows of the pairs that fit, in their order; `origin` identifies pairs of the same key."""
        (rows, n), discarded = origin.shape, self.length + 1
        keys, values = (Motifs(motifs.tokens, motifs.size * fits) for motifs in (keys, values))
        length = keys.size + values.size
        key_start = self.length + 1 - length.sum(dim=1, keepdim=True) + length.cumsum(dim=1) - length
        value_start = key_start + keys.size
        number = torch.arange(n, device=origin.device).expand_as(origin)
        # the number of the first pair of each key
        first = torch.full_like(origin, n).scatter_reduce(1, origin.where(fits, n - 1), number.where(fits, n), "amin")
        first = first.gather(1, origin).clamp(max=n - 1)
        key_columns, value_columns = keys.columns(key_start, discarded), values.columns(value_start, discarded)
        tokens = torch.full((rows, self.length + 2), self.vocab - 1, dtype=torch.int64, device=origin.device)
        source = torch.full_like(tokens, -1)
        tokens = tokens.scatter(1, key_columns.flatten(1), keys.tokens.flatten(1))
        tokens = tokens.scatter(1, value_columns.flatten(1), values.tokens.flatten(1))
        known = value_columns.where((number > first)[..., None], discarded)
        earlier = value_start.gather(1, first)[..., None] + torch.arange(self.value_size, device=origin.device)
        source = source.scatter(1, known.flatten(1), earlier.flatten(1))[:, 1:discarded]
        query = key_start[:, -1:] + torch.arange(self.key_size, device=origin.device)
        return every_next(tokens[:, :discarded], source, query.where(query < value_start[:, -1:], -1))


def _first_alike(keys: Motifs) -> Tensor:
    """The number of the first motif that equals each motif: (rows, n)."""
    letter = torch.arange(keys.tokens.shape[2], device=keys.size.device)
    letters = (1 + keys.tokens).where(letter < keys.size[..., None], 0)
    code = (letters * (2**17) ** letter).sum(dim=2)
    return (code[:, :, None] == code[:, None, :]).to(torch.uint8).argmax(dim=2)
