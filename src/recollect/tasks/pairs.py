"""What the tasks of keys and values share: how the pairs of a row are drawn, and how their tokens are read."""

from typing import TYPE_CHECKING, Literal, NamedTuple

import torch
from torch import Tensor

from recollect.rng import Bijection, Stream
from recollect.tasks.base import AnswersTask, Batch

Roles = Literal["split", "shared"]
"""Whether keys and values are tokens of the two halves of the vocabulary, or any of its tokens."""


class PairsTask(AnswersTask):
    """A task whose rows bind K different values to K keys and query some of them, one token per answer."""

    if TYPE_CHECKING:
        pairs: int

    @property
    def chance(self) -> float:
        """The accuracy of guessing any of the row's K values."""
        return 1.0 / self.pairs


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


def queried(tokens: Tensor, positions: Tensor, values: Tensor, key: Tensor, source: Tensor, pairs: int) -> Batch:
    """Rows in which the number `key` of the keys is queried at `positions`, and whose answers `values` are at `source`: (rows,
    answers) each. Its tags are the distance from the key to its query, the key's number and the number of pairs."""
    tags = {"gap": positions - source + 1, "key": key, "pairs": torch.full_like(key[:, :1], pairs)}
    return Batch(tokens, positions, values, source=source, tags=tags)


def draw_pairs(
    stream: Stream, pairs: int, values: int, vocab: int, roles: Roles = "split"
) -> tuple[Bijection, Tensor, Tensor]:
    """Distinct keys (rows, pairs) and distinct values (rows, values), none of them 0.

    They come with the map of labels to tokens that gave the keys: labels 0 .. pairs-1 are the row's keys, the others
    the key tokens (`shared`: all tokens) that are not.
    """
    half, key = vocab // 2, torch.arange(pairs, device=stream.device)
    value = torch.arange(values, device=stream.device)
    if roles == "split":
        token = stream.bijection(half - 1)
        return token, 1 + token(key), half + stream.bijection(half)(value)
    token = stream.bijection(vocab - 1)
    return token, 1 + token(key), 1 + token(pairs + value)


def too_few_keys(pairs: int, vocab: int) -> str | None:
    """Why a row cannot have so many different keys, or None if it can."""
    keys = vocab // 2 - 1
    return f"pairs {pairs} exceed the {keys} keys that vocab {vocab} has" if pairs > keys else None


def pair_word(token: int, vocab: int, roles: Roles = "split") -> str:
    """A key, a value or a blank in readable form."""
    if token == 0:
        return "·"
    if roles == "shared":
        return str(token)
    return f"k{token}" if token < vocab // 2 else f"v{token - vocab // 2}"
