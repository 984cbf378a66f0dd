"""What a finished model is asked: each question in words and marks, which a form then writes as text or as tokens.

Copying, n-gram lookup and the phone book are tasks of Jelassi et al. 2024 ("Repeat After Me"); associative recall is that of
Ba et al. 2016. The phone book has the paper's lines ("John Powell: 609-323-7777"), its examples from the same book, and then
the question; the wording around them is ours.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch

from recollect.rng import Stream
from recollect.spec import SpecError
from recollect.tasks.ngram import SYMBOLS, NGram

Item = str | tuple[str, int]
"""A mark by name, or a word: its kind, and which of the row's words of that kind."""
Draw = Callable[[str], Stream]
"""One stream per row, for a purpose."""


@dataclass(frozen=True)
class Part:
    """A prompt and the right continuation."""

    prompt: list[Item]
    answer: list[Item]
    tenth: int = -1
    """Which tenth of the context has the answer; -1 where it is the whole context."""


Row = list[Part]
"""Questions one after another, each after the right answers to those before."""


@dataclass(frozen=True)
class Question(ABC):
    """A question of some length, after some solved examples."""

    length: int
    shots: int
    text: ClassVar[dict[str, str]]
    """What each mark is in text."""
    tokens: ClassVar[dict[str, int]]
    """Which mark token each mark is; those that are not here are not written as tokens."""
    counts: ClassVar[str]
    """What `length` counts."""
    solved_examples: ClassVar[bool] = True
    """Whether solved examples can come before the question."""

    @abstractmethod
    def needs(self) -> dict[str, int]:
        """How many different words of each kind a row has."""

    @abstractmethod
    def rows(self, draw: Draw) -> list[Row]:
        """One row for each row of the streams."""


class Copy(Question):
    """Different words, then the same words again."""

    text: ClassVar = {"begin": "Text:", "again": "\nCopy:", "gap": " ", "end": "\n\n"}
    tokens: ClassVar = {"begin": 0, "again": 0}
    counts: ClassVar = "words to copy"

    def needs(self) -> dict[str, int]:
        return {"word": self.length * (self.shots + 1)}

    def rows(self, draw: Draw) -> list[Row]:
        copied = [_words(range(i * self.length, (i + 1) * self.length)) for i in range(self.shots + 1)]
        examples = [(["begin", *words, "again"], words) for words in copied]
        return [_after_examples(examples)] * draw("rows").rows  # which words they are is the form's draw


class Lookup(Question):
    """The three words that follow two given ones, which occur once in a text of few different words."""

    text: ClassVar = {"begin": "Text:", "find": "\nFind:", "next": "\nNext:", "gap": " ", "end": "\n\n"}
    tokens: ClassVar = {"begin": 0, "find": 0}
    counts: ClassVar = "words of the text"

    @property
    def _task(self) -> NGram:
        return NGram(n=2, k=3, min_length=self.length, length=self.length, symbols=twice_root(self.length))

    def needs(self) -> dict[str, int]:
        return {"word": self._task.alphabet * (self.shots + 1)}

    def rows(self, draw: Draw) -> list[Row]:
        task, shots = self._task, []
        for shot in range(self.shots + 1):  # each with words of its own
            batch = task.sample(draw(f"example {shot}"))
            first = SYMBOLS - shot * task.alphabet  # subtracted from a symbol, it gives the number of a word
            text = batch.tokens[:, 1 : 1 + self.length] - first
            query = batch.tokens.gather(1, batch.query) - first
            shots.append([x.tolist() for x in (text, query, batch.answers - first)])
        starts = batch.tags["place"][:, 0].tolist()
        rows = []
        for i, start in enumerate(starts):
            examples = [
                (["begin", *_words(text[i]), "find", *_words(query[i]), "next"], _words(answer[i]))
                for text, query, answer in shots
            ]
            rows.append(_after_examples(examples, 10 * start // self.length))
        return rows


class _Table(Question):
    """Keys with values, some keys asked and answered as examples, then one more key."""

    def _asked(self, draw: Draw) -> list[list[int]]:
        """The entries that are asked, the last of them as the question: (rows, shots + 1)."""
        if self.shots >= self.length:
            raise SpecError(f"{self.shots} shots need a length of at least {self.shots + 1}, got {self.length}")
        return draw("asked").order(self.length)[:, : self.shots + 1].tolist()

    def _row(self, asked: list[int], entry: Callable[[int, bool], tuple[list[Item], list[Item]]]) -> Row:
        """`entry` gives an entry's key and value, as the table has them or as they are asked."""
        prompt: list[Item] = ["begin"]
        for i in range(self.length):
            prompt += [item for part in entry(i, False) for item in part]
        prompt.append("ask")
        for i in asked[:-1]:
            prompt += [item for part in entry(i, True) for item in part]
        key, value = entry(asked[-1], True)
        return [Part(prompt + key, value, 10 * asked[-1] // self.length)]


class Recall(_Table):
    """Associative recall: pairs of words, then the first of a pair."""

    text: ClassVar = {"begin": "Pairs:", "line": "\n", "is": ":", "gap": " ", "ask": "\n\nAgain:"}
    tokens: ClassVar = {}
    counts: ClassVar = "pairs"

    def needs(self) -> dict[str, int]:
        return {"word": 2 * self.length}

    def rows(self, draw: Draw) -> list[Row]:
        def entry(i: int, _: bool) -> tuple[list[Item], list[Item]]:
            return ["line", ("word", 2 * i), "is"], ["gap", ("word", 2 * i + 1)]

        return [self._row(asked, entry) for asked in self._asked(draw)]


class PhoneBook(_Table):
    """Names with ten-digit numbers, then a name; first and last names both occur again, so both must be read."""

    text: ClassVar = {
        "begin": "Phone book:", "line": "\n", "is": ":", "gap": " ", "dash": "-", "person": "\nPerson: ",
        "number": "\nNumber:", "ask": "\n\nGive the phone number of each person, as in the phone book above.\n",
    }  # fmt: skip
    tokens: ClassVar = {"line": 0, "person": 0, "is": 1, "number": 1}
    counts: ClassVar = "entries"

    def needs(self) -> dict[str, int]:
        return {"first": twice_root(self.length), "last": twice_root(self.length), "digit": 10}

    def rows(self, draw: Draw) -> list[Row]:
        names = twice_root(self.length)
        people = draw("names").bijection(names**2)(torch.arange(self.length)).tolist()
        digits = draw("numbers").integers(10 * self.length, 0, 10).tolist()

        def row(asked: list[int], people: list[int], digits: list[int]) -> Row:
            def entry(i: int, question: bool) -> tuple[list[Item], list[Item]]:
                first, last = divmod(people[i], names)
                number: list[Item] = [("digit", digit) for digit in digits[10 * i : 10 * i + 10]]
                before, after = ("person", "number") if question else ("line", "is")
                key: list[Item] = [before, ("first", first), "gap", ("last", last), after]
                return key, ["gap", *number[:3], "dash", *number[3:6], "dash", *number[6:]]

            return self._row(asked, entry)

        return [row(*parts) for parts in zip(self._asked(draw), people, digits, strict=True)]


def _words(numbers: Iterable[int]) -> list[Item]:
    """Plain words with gaps before them."""
    return [item for number in numbers for item in ("gap", ("word", number))]


def _after_examples(examples: list[tuple[list[Item], list[Item]]], tenth: int = -1) -> Row:
    """The last example as the question, the others before it with their answers."""
    solved = [item for prompt, answer in examples[:-1] for item in (*prompt, *answer, "end")]
    prompt, answer = examples[-1]
    return [Part(solved + prompt, answer, tenth)]


def twice_root(n: int) -> int:
    """A number of different words: few enough that each recurs among n words, enough that pairs of them rarely do."""
    return 2 * math.ceil(math.sqrt(n))
