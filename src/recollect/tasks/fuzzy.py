"""Fuzzy recall: keys and values of varying numbers of tokens.

The context has K pairs, each a key of 1 to `key_length` tokens followed by a value of 1 to `value_length` tokens.
Then every pair is repeated once, in random order. Each token of the repeated value is predicted from the token before it.
Two keys may share tokens, and one may be a prefix of another; as a whole they differ.

MAD's fuzzy recall (`mad_fuzzy`) differs: pairs recur throughout a row of fixed length, and no token occurs twice in a key or a
value.
"""

from typing import Literal

import torch
from pydantic import Field

from recollect.rng import Stream
from recollect.tasks.base import MOST, Batch, largest_share
from recollect.tasks.pairs import Motifs, PairsTask


class Fuzzy(PairsTask):
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

    def _refusal(self) -> str | None:
        letters = self.vocab // 2 - 1
        if self.pairs > letters:
            return f"pairs {self.pairs} exceed the {letters} one-token keys that vocab {self.vocab} has"
        if letters**self.key_length >= 2**30:
            return (
                f"key_length {self.key_length} with {letters} key tokens (vocab {self.vocab}) gives more than 2^30 keys; "
                "shorten it or use a smaller vocab"
            )
        if self.row_length > MOST:
            sizes = f"pairs {self.pairs}, key_length {self.key_length} and value_length {self.value_length}"
            return f"{sizes} give rows of {self.row_length} tokens, more than {MOST}"
        return None

    @property
    def row_length(self) -> int:
        return 2 * self.pairs * (self.key_length + self.value_length) - 1

    @property
    def chance(self) -> float:
        """The accuracy of guessing the row's most frequent value token."""
        return largest_share(round(self.pairs * (self.value_length + 1) / 2), self.vocab // 2)

    def sample(self, stream: Stream) -> Batch:
        K, V, rows, device = self.pairs, self.value_length, stream.rows, stream.device
        keys = self._keys(stream)
        size = stream.integers(K, 1, V + 1)
        values = Motifs(stream.integers(K * V, self.vocab // 2, self.vocab).view(rows, K, V), size)
        order = stream.order(K)  # (rows, K), the order in which pairs are repeated

        written = torch.cat([torch.arange(K, device=device).expand(rows, -1), order], dim=1)  # (rows, 2K), pair by pair
        keys, values = keys.pick(written), values.pick(written)
        length = keys.size + values.size
        key_start = length.cumsum(dim=1) - length
        value_start = key_start + keys.size
        # the last column is discarded
        tokens = torch.zeros(rows, self.row_length + 2, dtype=torch.int64, device=device)
        for motifs, start in ((keys, key_start), (values, value_start)):
            column = motifs.columns(start, self.row_length + 1)
            tokens.scatter_(1, column.flatten(1), motifs.tokens.flatten(1))

        at = values.columns(value_start, -1)[:, K:].flatten(1)  # (rows, K x V), of the repeated values
        trained = at >= 0
        source = (value_start.gather(1, order)[..., None] + torch.arange(V, device=device)).flatten(1)
        end = value_start[:, -1:] + values.size[:, -1:] - 1  # nothing is read at the row's last token
        pair = order.repeat_interleave(V, dim=1)
        gap = (key_start[:, K:] - key_start.gather(1, order)).repeat_interleave(V, dim=1)
        return Batch(
            tokens=tokens.scatter(1, end, 0)[:, : self.row_length],
            positions=(at - 1).where(trained, 0),
            answers=tokens.gather(1, at.where(trained, 0)).where(trained, 0),
            query=keys.columns(key_start, -1)[:, K:].flatten(1),
            source=source.where(trained, -1),
            trained=trained,
            tags={"gap": gap, "key": pair, "pairs": torch.full_like(order[:, :1], K)},
        )

    def _keys(self, stream: Stream) -> Motifs:
        """K different keys."""
        letters, pair = self.vocab // 2 - 1, torch.arange(self.pairs, device=stream.device)
        size = stream.integers(self.pairs, 1, self.key_length + 1)
        code = torch.zeros_like(size)
        for length in range(1, self.key_length + 1):  # distinct among the keys of the same length
            code = torch.where(size == length, stream.bijection(letters**length)(pair), code)
        digits = [code // letters**digit % letters for digit in range(self.key_length)]
        return Motifs(1 + torch.stack(digits, dim=2), size)
