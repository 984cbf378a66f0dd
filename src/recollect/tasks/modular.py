"""Modular arithmetic (Delétang et al. 2023; in this form Beck et al. 2024 and Grazzi et al. 2025).

    3 + 4 x 2 - 1 =                 without brackets: x binds first
    ( ( 3 + 4 ) x ( 2 - 1 ) ) =     with brackets: around every operation, and the order of the operations is random

The value modulo m is read at `=`. The number of digits is drawn uniformly from those that fit the length.
"""

from functools import cached_property
from typing import ClassVar, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from recollect.rng import Stream
from recollect.spec import SpecError
from recollect.tasks.base import MOST, Batch, Task

_PLUS, _MINUS, _TIMES = range(3)


class Modular(Task):
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

    accuracy: ClassVar[Literal["answers", "rows"]] = "answers"

    @model_validator(mode="after")
    def _possible(self) -> Self:
        low, high = self._digits
        if low > high:
            sizes = f"{self._size(high)} or {self._size(high + 1)} tokens"
            raise SpecError(
                f"modular: no expression has {self.min_length} to {self.length} tokens; the nearest have {sizes}"
            )
        return self

    def _size(self, digits: int) -> int:
        """Tokens of an expression of so many digits."""
        return (4 * digits - 3) if self.brackets else 2 * digits - 1

    @property
    def _digits(self) -> tuple[int, int]:
        """The fewest and the most digits that an expression has."""
        if self.brackets:
            return max(1, -(-(self.min_length + 3) // 4)), (self.length + 3) // 4
        return max(1, -(-(self.min_length + 1) // 2)), (self.length + 1) // 2

    @property
    def vocabulary(self) -> int:
        return self.modulus + 7  # padding, digits, three operators, two brackets, `=`

    @property
    def row_length(self) -> int:
        return self.length + 1

    @cached_property
    def chance(self) -> float:
        """The accuracy of always guessing 0, the most frequent value, in 4,096 rows."""
        return (self.batch(0, "chance", 4096).answers == 1).double().mean().item()

    def word(self, token: int) -> str:
        if token == 0:
            return "·"
        return str(token - 1) if token <= self.modulus else "+-x()="[token - 1 - self.modulus]

    def sample(self, stream: Stream) -> Batch:
        least, most = self._digits
        count = stream.integers(1, least, most + 1)  # (rows, 1), digits
        digits = stream.integers(most, 0, self.modulus)
        signs = stream.integers(max(most - 1, 1), 0, 3)[:, : most - 1]  # the operator after each digit
        if self.brackets:
            # the operators in the order in which they are carried out: the later, the further out
            rank = stream.order(max(most - 1, 1))[:, : most - 1].where(_up_to(signs, count - 1), -1)
            start, end = _spans(rank)
            value = self._evaluated(digits, signs, rank, start)
        else:
            start = end = None
            value = self._by_precedence(digits, signs, count)
        tokens = self._written(digits, signs, count, start, end)
        at = (tokens != 0).sum(dim=1, keepdim=True)
        tokens = tokens.scatter(1, at, self.modulus + 6)
        return Batch(tokens, at, 1 + value, query=at, source=torch.full_like(at, -1), tags={"digits": count})

    def _by_precedence(self, digits: Tensor, signs: Tensor, count: Tensor) -> Tensor:
        """The values (rows, 1) of expressions without brackets."""
        total, term = torch.zeros_like(count), digits[:, :1]
        for i in range(signs.shape[1]):
            digit, sign = digits[:, i + 1 : i + 2], signs[:, i : i + 1]
            product, next_term = sign == _TIMES, torch.where(sign == _MINUS, -digit, digit)
            inside = i + 1 < count
            total = torch.where(inside & ~product, total + term, total)
            term = torch.where(inside, torch.where(product, term * digit % self.modulus, next_term), term)
        return (total + term) % self.modulus

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

    def _written(
        self, digits: Tensor, signs: Tensor, count: Tensor, start: Tensor | None, end: Tensor | None
    ) -> Tensor:
        """The tokens of expressions, without `=`, padded with 0: (rows, length + 1)."""
        rows, most, m = len(digits), digits.shape[1], self.modulus
        opened = closed = torch.zeros_like(digits)  # brackets that open right before and close right after each digit
        if start is not None and end is not None:
            real = _up_to(signs, count - 1).long()
            opened, closed = opened.scatter_add(1, start, real), closed.scatter_add(1, end, real)
        number = torch.arange(most, device=digits.device)
        position = opened.cumsum(1) + closed.cumsum(1) - closed + 2 * number  # (rows, most), the position of each digit
        inside, discarded = _up_to(digits, count), self.length + 1
        # the last column is discarded
        tokens = torch.zeros(rows, self.length + 2, dtype=torch.int64, device=digits.device)
        # what no digit and no operator overwrites is a bracket, which opens if a digit follows it
        if start is not None:
            column = torch.arange(self.length + 2, device=digits.device).expand(rows, -1).contiguous()
            length = (position + closed).gather(1, count - 1) + 1
            following = torch.searchsorted(position.where(inside, discarded).contiguous(), column).clamp(max=most - 1)
            before = position.gather(1, following) - column  # how far off the next digit is
            opens = (before > 0) & (before <= opened.gather(1, following)) & (following < count)
            tokens = (m + 5 - opens.long()).where(column < length, 0)
        tokens = tokens.scatter(1, position.where(inside, discarded), 1 + digits)
        operator = (position + closed + 1)[:, :-1]
        tokens = tokens.scatter(1, operator.where(_up_to(signs, count - 1), discarded), 1 + m + signs)
        return tokens[:, : self.length + 1]


def _up_to(like: Tensor, count: Tensor) -> Tensor:
    """Which columns of a tensor come before `count` (rows, 1)."""
    return torch.arange(like.shape[1], device=like.device) < count


def _spans(rank: Tensor) -> tuple[Tensor, Tensor]:
    """The first and the last digit (rows, operators) of each operator's part of the expression: up to the nearest operators
    that are carried out later. Operator i is between the digits i and i + 1."""
    n = rank.shape[1]
    number = torch.arange(n, device=rank.device)
    later = rank[:, None, :] > rank[:, :, None]  # (rows, operator, other)
    left = (later & (number < number[:, None])) * (number + 1)
    right = (later & (number > number[:, None])) * (n - number)
    real = (rank >= 0).sum(dim=1, keepdim=True)
    if n == 0:
        return rank, rank
    return left.amax(dim=2), torch.minimum(n - right.amax(dim=2), real)
