"""In-context recall as in MAD (Poli et al. 2024; athms/mad-lab): pairs of a key and a value, one after another.

Keys are drawn with replacement; a key has the same value throughout a row. The key of the last pair has occurred before. The loss
counts every next token; the accuracy counts values whose key has occurred before. Keys are the lower half of the vocabulary,
values the upper half. MAD's test loss covers the scored answers only; here it covers all. In noisy recall some pairs are two
tokens of noise.
"""

from functools import cached_property
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from recollect.rng import Stream
from recollect.tasks.base import MOST, AnswersTask, Batch


class MADRecall(AnswersTask):
    """MAD's in-context recall: the value of a key that occurred earlier in the row."""

    kind: Literal["mad_recall"] = "mad_recall"  # pyright: ignore[reportAssignmentType]  (noisy recall has its own)
    length: int = Field(default=128, ge=4, le=MOST, multiple_of=2)
    """Tokens of all pairs. The last value is not fed, so a row has one less."""
    vocab: int = Field(default=16, ge=2, le=MOST, multiple_of=2)
    """Token ids: keys, then as many values."""

    def _refusal(self) -> str | None:
        return None if self.keys > 0 else f"vocab {self.vocab} leaves no keys beside {self._noise[1]} noise tokens"

    @property
    def _noise(self) -> tuple[float, int]:
        """The share of pairs that are noise, and the number of noise tokens, which are the last of the vocabulary."""
        return 0.0, 0

    @property
    def keys(self) -> int:
        """Different keys, and different values."""
        return (self.vocab - self._noise[1]) // 2

    @property
    def row_length(self) -> int:
        return self.length - 1

    @cached_property
    def chance(self) -> float:
        """The accuracy of guessing the row's most frequent value, in 2,048 rows."""
        batch = self.batch(0, "chance", 2048)
        return most_frequent_share(batch, batch.answers[:, ::2], self.keys, 2 * self.keys)

    def lexicon(self) -> dict[str, range]:
        return {"k{}": range(self.keys), "v{}": range(self.keys), "n{}": range(self.vocab - 2 * self.keys)}

    def sample(self, stream: Stream) -> Batch:
        pairs, K, device = self.length // 2, self.keys, stream.device
        key = stream.integers(pairs, 0, K)  # (rows, pairs)
        value = stream.integers(K, K, 2 * K)  # (rows, K), that of each key
        asked = stream.uniform(1)
        number = torch.arange(pairs, device=device).expand_as(key)
        noisy = torch.zeros_like(key, dtype=torch.bool)
        share, _ = self._noise
        if share:
            noisy = (stream.uniform(pairs) < share) & (number != stream.integers(1, 0, pairs - 1))
        last = number == pairs - 1

        # the first pair of each key; noise has a key of its own
        first = torch.full((len(key), K + 1), pairs, dtype=torch.int64, device=device)
        first = first.scatter_reduce(1, key.masked_fill(noisy | last, K), number, "amin")[:, :K]
        known = (first < pairs).cumsum(dim=1)  # (rows, K), how many keys up to this one occur in the row
        probe = (known <= (asked * known[:, -1:]).long()).sum(dim=1, keepdim=True)  # uniform over those
        key, noisy = torch.where(last, probe, key), noisy & ~last
        tokens = torch.stack([key, value.gather(1, key)], dim=2)  # (rows, pairs, 2)
        if share:
            noise = stream.integers(2 * pairs, 2 * K, self.vocab).view_as(tokens)
            tokens = torch.where(noisy[..., None], noise, tokens)
        tokens = tokens.flatten(1)

        began = first.gather(1, key)
        known = ~noisy & (number > began)  # (rows, pairs), the key occurred before
        source = (2 * began + 1).where(known, -1)  # of each value; that of the next key is nowhere
        source = torch.stack([source, torch.full_like(source, -1)], dim=2).flatten(1)[:, :-1]
        return every_next(tokens, source, query=(2 * number).where(known, -1))


class MADNoisy(MADRecall):
    """MAD's noisy recall: in-context recall with noise among the pairs."""

    kind: Literal["mad_noisy"] = "mad_noisy"  # pyright: ignore[reportIncompatibleVariableOverride]
    vocab: int = Field(default=32, ge=2, le=MOST, multiple_of=2)
    """Token ids: keys, as many values, then the noise."""
    noises: int = Field(default=16, ge=1, le=MOST)
    """Different noise tokens, which are part of the vocabulary."""
    noise: float = Field(default=0.2, gt=0, lt=1)
    """The probability that a pair is noise. One random pair of a row, and the last one, never are."""

    @property
    def _noise(self) -> tuple[float, int]:
        return self.noise, self.noises


def every_next(tokens: Tensor, source: Tensor, query: Tensor) -> Batch:
    """Rows that predict each next token of `tokens` (rows, length + 1); the accuracy counts those with a `source`."""
    positions, scored = torch.arange(source.shape[1], device=source.device).expand_as(source), source >= 0
    tags = {"gap": (positions + 1 - source).where(scored, -1)}
    return Batch(tokens[:, :-1], positions, tokens[:, 1:], query=query, source=source, scored=scored, tags=tags)


def most_frequent_share(batch: Batch, written: Tensor, first: int, last: int) -> float:
    """The accuracy of guessing, in each row, the token from `first` up to (not including) `last` that is most frequent
    among `written` (rows, any), averaged over the rows."""
    counts = torch.zeros(len(written), last, dtype=torch.int64, device=written.device)
    counts = counts.scatter_add(1, written.clamp(max=last - 1), (written < last).long())[:, first:]
    guess = counts.argmax(dim=1, keepdim=True) + first
    right = ((batch.answers == guess) & batch.scored).sum(dim=1) / batch.scored.sum(dim=1)
    return right.double().mean().item()
