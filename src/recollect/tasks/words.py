"""Word problems of a finite group (Merrill et al. 2024; Grazzi et al. 2025; Siems et al. 2025, "DeltaProduct").

A row is a word: elements x_1 .. x_n of a group, drawn uniformly. At each element x_t the product x_1 x_2 .. x_t is read. The
running product is the state of an automaton. S5 and A5 are not solvable, and their word problems are beyond constant-depth
circuits.
"""

from functools import cache
from itertools import permutations
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from recollect.rng import Stream
from recollect.tasks.base import MOST, AnswersTask, Batch

_LARGEST = 5
"""The most letters that are permuted; S5 has 120 elements."""


class Words(AnswersTask):
    """The word problem of a group: the product of the elements so far."""

    kind: Literal["words"] = "words"
    group: str = Field(default="s3", pattern="^(z[1-9][0-9]{0,2}|[sa][2-9])$")
    """The group: zN (cyclic, N from 2 to 999), sN (all permutations of N letters, N from 2 to 5) or aN (the even ones, N from 3
    to 5)."""
    length: int = Field(default=128, ge=1, le=MOST)
    """Elements in a row."""
    after: int = Field(default=0, ge=0)
    """How many of the first answers the accuracy leaves out: in a test with longer rows, those within the trained length."""

    def _refusal(self) -> str | None:
        letter, size = self.group[0], int(self.group[1:])
        if (letter == "z" and size < 2) or (letter != "z" and not 2 + (letter == "a") <= size <= _LARGEST):
            return f"unknown group {self.group!r}; choose z2 to z999, s2 to s5, or a3 to a5"
        if self.after >= self.length:
            return f"after {self.after} leaves none of the {self.length} answers to the accuracy"
        return None

    @property
    def order(self) -> int:
        """How many elements the group has."""
        return len(products(self.group))

    @property
    def chance(self) -> float:
        """The accuracy of guessing any element."""
        return 1.0 / self.order

    def lexicon(self) -> dict[str, range]:
        if self.group[0] == "z":
            return {"·": range(1), "{}": range(self.order)}
        elements = ("".join(str(letter + 1) for letter in p) for p in _permutations(self.group))
        return dict.fromkeys(("·", *elements), range(1))

    def sample(self, stream: Stream) -> Batch:
        element = stream.integers(self.length, 0, self.order)  # (rows, length)
        table, product, step = products(self.group).to(stream.device), element, 1
        while step < self.length:  # prefix products; each pass doubles how many elements they cover
            product = torch.cat([product[:, :step], table[product[:, :-step], product[:, step:]]], dim=1)
            step *= 2
        position = torch.arange(self.length, device=stream.device).expand(stream.rows, -1)
        scored = position >= self.after
        return Batch(1 + element, position, 1 + product, scored=scored, tags={"position": position})


@cache
def _permutations(group: str) -> list[tuple[int, ...]]:
    """The elements of sN or aN as tuples, p[i] being where i goes; the identity is first."""
    every = list(permutations(range(int(group[1:]))))
    return every if group[0] == "s" else [p for p in every if _swaps(p) % 2 == 0]


def _swaps(p: tuple[int, ...]) -> int:
    """How many pairs a permutation puts out of order."""
    return sum(a > b for i, a in enumerate(p) for b in p[i + 1 :])


@cache
def products(group: str) -> Tensor:
    """The multiplication table of a group: entry (a, b) is the number of ab, 0 being the identity. Of two permutations b
    acts first."""
    if group[0] == "z":
        numbers = torch.arange(int(group[1:]))
        return (numbers[:, None] + numbers) % len(numbers)
    elements = _permutations(group)
    number = {p: i for i, p in enumerate(elements)}
    return torch.tensor([[number[tuple(p[i] for i in q)] for q in elements] for p in elements])
