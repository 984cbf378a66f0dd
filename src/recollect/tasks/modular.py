"""Modular arithmetic (Delétang et al. 2023; in this form Beck et al. 2024 and Grazzi et al. 2025).

    3 + 4 x 2 - 1 =                 without brackets: x binds first
    ( ( 3 + 4 ) x ( 2 - 1 ) ) =     with brackets: around every operation, and the order of the operations is random

The value modulo m is read at `=`. The number of digits is drawn uniformly from those that fit the length.
"""

from functools import cached_property
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from recollect.rng import Stream
from recollect.tasks.base import MOST, AnswersTask, Batch

_PLUS, _MINUS, _TIMES = range(3)


class Modular(AnswersTask):
    """Modular arithmetic: the value of an expression of digits, +, - and x, modulo m."""

    kind: Literal["modular"] = "modular"
    modulus: int = Field(default=5, ge=2, le=1000)
    """m: digits and answers are 0 .. m-1."""
    brackets: bool = False
    """Whether every operation is in brackets; without them x binds first."""
    min_length: int = Field(default=3, ge=1)
    """Tokens of the shortest expression, without `=`."""
    length: int = Field(default=40, ge=1, le=MOST)
    """Tokens of the longest expression, without `=`."""

    def _refusal(self) -> str | None:
        low, high = self._digits
        if low > high:
            size = 1 + self._each * (high - 1)
            nearest = f"{size} or {size + self._each} tokens"
            return f"no expression has {self.min_length} to {self.length} tokens; the nearest have {nearest}"
        return None

    @property
    def _each(self) -> int:
        """Tokens that one more digit adds to an expression, the first of whose digits is one token."""
        return 4 if self.brackets else 2

    @property
    def _digits(self) -> tuple[int, int]:
        """The fewest and the most digits that an expression has."""
        return 1 - (1 - self.min_length) // self._each, 1 + (self.length - 1) // self._each

    @property
    def row_length(self) -> int:
        return self.length + 1

    @cached_property
    def chance(self) -> float:
        """The accuracy of always guessing 0, the most frequent value, in 4,096 rows."""
        return (self.batch(0, "chance", 4096).answers == 1).double().mean().item()

    def lexicon(self) -> dict[str, range]:
        return {"·": range(1), "{}": range(self.modulus), **dict.fromkeys("+-x()=", range(1))}

    def sample(self, stream: Stream) -> Batch:
        least, most = self._digits
        count = stream.integers(1, least, most + 1)  # (rows, 1), digits
        digits = stream.integers(most, 0, self.modulus)
        signs = stream.integers(max(most - 1, 1), 0, 3)[:, : most - 1]  # the operator after each digit
        real = _up_to(signs, count - 1)
        opened = closed = torch.zeros_like(digits)
        # the rank of an operator says when it is carried out; its left part begins at `start`
        if self.brackets:
            rank = stream.order(max(most - 1, 1))[:, : most - 1].where(real, -1)  # the later, the further out
            start, end = _spans(rank)
            opened, closed = (torch.zeros_like(digits).scatter_add(1, bracket, real.long()) for bracket in (start, end))
        else:
            product, number = signs == _TIMES, torch.arange(most - 1, device=stream.device)
            rank = torch.where(product, number, number + most).where(real, -1)  # products first
            start = product * ((number + 1) * ~product).cummax(dim=1).values  # after the last sum before it, or 0
        value = self._evaluated(digits, signs, rank, start)
        tokens = self._written(digits, signs, count, opened, closed)
        at = (tokens != 0).sum(dim=1, keepdim=True)
        tokens = tokens.scatter(1, at, self.modulus + 6)
        return Batch(tokens, at, 1 + value, tags={"digits": count})

    def _evaluated(self, digits: Tensor, signs: Tensor, rank: Tensor, start: Tensor) -> Tensor:
        """The values (rows, 1) of expressions whose operators are carried out by rank; each left part begins at `start`."""
        value, order = digits, rank.argsort(dim=1)  # padding, whose rank is -1, comes first
        for i in range(rank.shape[1]):
            here = order[:, i : i + 1]
            at, sign = start.gather(1, here), signs.gather(1, here)
            left, right = value.gather(1, at), value.gather(1, here + 1)
            done = torch.where(sign == _PLUS, left + right, torch.where(sign == _MINUS, left - right, left * right))
            value = value.scatter(1, at, torch.where(rank.gather(1, here) >= 0, done % self.modulus, left))
        return value[:, :1]

    def _written(self, digits: Tensor, signs: Tensor, count: Tensor, opened: Tensor, closed: Tensor) -> Tensor:
        """The tokens of expressions, without `=`, padded with 0: (rows, length + 1). `opened` brackets open right before each
        digit, and `closed` ones close right after it: (rows, digits) each."""
        m, discarded = self.modulus, self.length + 1  # the last column is discarded
        number, inside = torch.arange(digits.shape[1], device=digits.device), _up_to(digits, count)
        position = opened.cumsum(1) + closed.cumsum(1) - closed + 2 * number  # (rows, digits)
        first, at = ((position - before).where(inside, discarded) for before in (opened, 0))
        empty = torch.zeros(len(digits), self.length + 2, dtype=torch.int64, device=digits.device)
        one = torch.ones_like(digits)
        opens = (
            empty.scatter_add(1, first, one).scatter_add(1, at, -one).cumsum(1)
        )  # 1 from a digit's first bracket to it
        # what no digit and no operator overwrites is a bracket
        length = (position + closed).gather(1, count - 1) + 1
        tokens = (m + 5 - opens).where(_up_to(empty, length), 0).scatter(1, at, 1 + digits)
        operator = (position + closed + 1)[:, :-1].where(_up_to(signs, count - 1), discarded)
        return tokens.scatter(1, operator, 1 + m + signs)[:, :discarded]


def _up_to(like: Tensor, count: Tensor) -> Tensor:
    """Which columns of a tensor come before `count` (rows, 1)."""
    return torch.arange(like.shape[1], device=like.device) < count


def _spans(rank: Tensor) -> tuple[Tensor, Tensor]:
    """The first and the last digit (rows, operators) of each operator's part of the expression: up to the nearest operators
    that are carried out later. Operator i is between the digits i and i + 1."""
    n = rank.shape[1]
    if n == 0:
        return rank, rank
    number = torch.arange(n, device=rank.device)
    later = rank[:, None, :] > rank[:, :, None]  # (rows, operator, other)
    left = (later & (number < number[:, None])) * (number + 1)
    right = (later & (number > number[:, None])) * (n - number)
    real = (rank >= 0).sum(dim=1, keepdim=True)
    return left.amax(dim=2), torch.minimum(n - right.amax(dim=2), real)
