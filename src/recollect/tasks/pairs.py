"""What the tasks of keys and values share: how the pairs of a row are drawn, and how their tokens are read."""

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from recollect.rng import Bijection, Stream
from recollect.tasks.base import AnswersTask

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


def pair_word(token: int, vocab: int, roles: Roles = "split") -> str:
    """A key, a value or a blank in readable form."""
    if token == 0:
        return "·"
    if roles == "shared":
        return str(token)
    return f"k{token}" if token < vocab // 2 else f"v{token - vocab // 2}"
