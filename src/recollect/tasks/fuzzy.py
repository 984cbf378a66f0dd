"""Fuzzy recall: keys and values of varying numbers of tokens.

The context has K pairs, each a key of 1 to `key_length` tokens followed by a value of 1 to `value_length` tokens.
Then every pair is repeated once, in random order. Each token of the repeated value is predicted from the token before it.
Two keys may share tokens, and one may be a prefix of another; as a whole they differ.

MAD's fuzzy recall (`mad_fuzzy`) differs: pairs recur throughout a row of fixed length, and no token occurs twice in a key or a
value.
"""

from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from recollect.rng import Stream
from recollect.spec import SpecError
from recollect.tasks.base import MOST, AnswersTask, Batch, largest_share
from recollect.tasks.pairs import pair_word


class Fuzzy(AnswersTask):
    """Fuzzy recall: keys and values of several tokens, then every key is queried. (MAD's is `mad_fuzzy`.)"""

    kind: Literal["fuzzy"] = "fuzzy"
    pairs: int = Field(default=8, ge=1)
    """Key-value pairs in a row (K)."""
    key_length: int = Field(default=3, ge=1, le=MOST)
    """Tokens of the longest key; numbers are uniform from 1 up."""
    value_length: int = Field(default=3, ge=1, le=MOST)
    """Tokens of the longest value; numbers are uniform from 1 up."""
    vocab: int = Field(default=64, ge=4, le=MOST, multiple_of=2)
    """Token ids. 0 pads, key tokens are 1 .. vocab/2-1, value tokens vocab/2 .. vocab-1."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        letters = self.vocab // 2 - 1
        if self.pairs > letters:
            raise SpecError(
                f"fuzzy: pairs {self.pairs} exceed the {letters} one-token keys that vocab {self.vocab} has"
            )
        if letters**self.key_length >= 2**30:
            raise SpecError(
                f"fuzzy: key_length {self.key_length} with {letters} key tokens (vocab {self.vocab}) gives more than "
                f"2^30 keys; shorten it or use a smaller vocab"
            )
        if self.row_length > MOST:
            raise SpecError(
                f"fuzzy: pairs {self.pairs}, key_length {self.key_length} and value_length {self.value_length} "
                f"give rows of {self.row_length} tokens, more than {MOST}"
            )
        return self

    @property
    def row_length(self) -> int:
        return 2 * self.pairs * (self.key_length + self.value_length) - 1

    @property
    def chance(self) -> float:
        """The accuracy of guessing the row's most frequent value token."""
        return largest_share(round(self.pairs * (self.value_length + 1) / 2), self.vocab // 2)

    def word(self, token: int) -> str:
        return pair_word(token, self.vocab)

    def sample(self, stream: Stream) -> Batch:
        K, V, rows, device = self.pairs, self.value_length, stream.rows, stream.device
        keys, key_size = self._keys(stream)  # (rows, K, key_length), (rows, K)
        value_size = stream.integers(K, 1, V + 1)
        values = stream.integers(K * V, self.vocab // 2, self.vocab).view(rows, K, V)
        order = stream.order(K)  # (rows, K), the order in which pairs are repeated

        once = torch.cat([torch.arange(K, device=device).expand(rows, -1), order], dim=1)  # (rows, 2K), pair by pair
        key_sizes, value_sizes = key_size.gather(1, once), value_size.gather(1, once)
        key_start = (key_sizes + value_sizes).cumsum(dim=1) - key_sizes - value_sizes
        value_start = key_start + key_sizes

        # the last column is discarded
        tokens = torch.zeros(rows, self.row_length + 2, dtype=torch.int64, device=device)
        for words, start, sizes in ((keys, key_start, key_sizes), (values, value_start, value_sizes)):
            letter = torch.arange(words.shape[2], device=device)
            column = (start[..., None] + letter).where(letter < sizes[..., None], self.row_length + 1)
            written = words.gather(1, once[..., None].expand(-1, -1, words.shape[2]))
            tokens.scatter_(1, column.flatten(1), written.flatten(1))

        letter = torch.arange(V, device=device)
        trained = (letter < value_sizes[:, K:, None]).flatten(1)  # (rows, K x V)
        value_at = (value_start[:, K:, None] + letter).flatten(1)
        source = (value_start.gather(1, order)[..., None] + letter).flatten(1)
        answers = tokens.gather(1, value_at.where(trained, 0)).where(trained, 0)
        end = value_start[:, -1:] + value_sizes[:, -1:] - 1  # nothing is read at the row's last token
        pair = order.repeat_interleave(V, dim=1)
        gap = (key_start[:, K:] - key_start.gather(1, order)).repeat_interleave(V, dim=1)
        asked = torch.arange(self.key_length, device=device)
        query = (key_start[:, K:, None] + asked).where(asked < key_sizes[:, K:, None], -1)
        return Batch(
            tokens=tokens.scatter(1, end, 0)[:, : self.row_length],
            positions=(value_at - 1).where(trained, 0),
            answers=answers,
            query=query.flatten(1),
            source=source.where(trained, -1),
            trained=trained,
            tags={"gap": gap, "key": pair, "pairs": torch.full_like(order[:, :1], K)},
        )

    def _keys(self, stream: Stream) -> tuple[Tensor, Tensor]:
        """Distinct keys, (rows, K, key_length), and their numbers of tokens, (rows, K)."""
        letters, pair = self.vocab // 2 - 1, torch.arange(self.pairs, device=stream.device)
        size = stream.integers(self.pairs, 1, self.key_length + 1)
        code = torch.zeros_like(size)
        for length in range(1, self.key_length + 1):  # distinct among the keys of the same length
            code = torch.where(size == length, stream.bijection(letters**length)(pair), code)
        digits = [code // letters**digit % letters for digit in range(self.key_length)]
        return 1 + torch.stack(digits, dim=2), size
