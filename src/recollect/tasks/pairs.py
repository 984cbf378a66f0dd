"""What the tasks of keys and values share: how the pairs of a row are drawn, and how their tokens are read."""

from typing import TYPE_CHECKING, Literal, NamedTuple

import torch
from torch import Tensor

from recollect.rng import Bijection, Stream
from recollect.tasks.base import AnswersTask, Batch

Roles = Literal["split", "shared"]
"""Whether keys and values are tokens of the two halves of the vocabulary, or any of its tokens."""


class PairsTask(AnswersTask):
    """A task whose rows bind values to K keys and query some of them. Tokens are blank, then keys, then values, unless a task has
    the field `roles` and it is `shared`."""

    if TYPE_CHECKING:
        pairs: int
        vocab: int

    @property
    def _shared(self) -> bool:
        return getattr(self, "roles", "split") == "shared"

    def _refusal(self) -> str | None:
        keys = self.vocab // 2 - 1
        return f"pairs {self.pairs} exceed the {keys} keys that vocab {self.vocab} has" if self.pairs > keys else None

    def lexicon(self) -> dict[str, range]:
        if self._shared:
            return {"·": range(1), "{}": range(1, self.vocab)}
        return {"·": range(1), "k{}": range(1, self.vocab // 2), "v{}": range(self.vocab // 2)}

    @property
    def chance(self) -> float:
        """The accuracy of guessing any of the row's K values."""
        return 1.0 / self.pairs

    def _draw_pairs(self, stream: Stream, values: int) -> tuple[Bijection, Tensor, Tensor]:
        """K distinct keys (rows, K) and so many distinct values (rows, values), none of them 0.

        They come with the map of labels to tokens that gave the keys: labels 0 .. K-1 are the row's keys, the others
        the key tokens (`shared`: all tokens) that are not.
        """
        half, key = self.vocab // 2, torch.arange(self.pairs, device=stream.device)
        value = torch.arange(values, device=stream.device)
        if self._shared:
            token = stream.bijection(self.vocab - 1)
            return token, 1 + token(key), 1 + token(self.pairs + value)
        token = stream.bijection(half - 1)
        return token, 1 + token(key), half + stream.bijection(half)(value)

    def _queried(self, tokens: Tensor, positions: Tensor, values: Tensor, key: Tensor, source: Tensor) -> Batch:
        """Rows in which key number `key` is queried at `positions`, and whose answers `values` are at `source`: (rows, answers)
        each. Its tags are the distance from the key to its query, the key's number and the number of pairs."""
        tags = {"gap": positions - source + 1, "key": key, "pairs": torch.full_like(key[:, :1], self.pairs)}
        return Batch(tokens, positions, values, source=source, tags=tags)


class Motifs(NamedTuple):
    """Keys or values of several tokens: their tokens (rows, n, largest size) and their sizes (rows, n)."""

    tokens: Tensor
    size: Tensor

    def pick(self, which: Tensor) -> "Motifs":
        """The motifs with these numbers (rows, m)."""
        index = which[..., None].expand(-1, -1, self.tokens.shape[2])
        return Motifs(self.tokens.gather(1, index), self.size.gather(1, which))

    def columns(self, start: Tensor, beyond: int) -> Tensor:
        """Where each token is written if motifs begin at `start` (rows, n), `beyond` where a motif has no such token."""
        letter = torch.arange(self.tokens.shape[2], device=start.device)
        return (start[..., None] + letter).where(letter < self.size[..., None], beyond)
