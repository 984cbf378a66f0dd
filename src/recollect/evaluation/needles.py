"""Needles in a haystack: facts hidden in filler text, and questions about them, in the settings of RULER (Hsieh et al. 2024).

A fact is "The number of KEY is VALUE."; the filler is one repeated sentence, or words drawn at random. Where RULER
fills with essays, which are not shipped here, these questions fill with random words. As tokens a fact is two tokens, the key and
the value, or nine where the value is long. The wording is ours.
"""

from typing import ClassVar

from recollect.evaluation.questions import Draw, Item, Part, Question, Row, twice_root

_SENTENCE = ("The", "tide", "comes", "in,", "and", "the", "tide", "goes", "out.")
_NOISE = {f"noise {i}": f" {word}" for i, word in enumerate(_SENTENCE)}
_GROUPS = 8
"""Groups of four hexadecimal digits in a long value."""


class Needle(Question):
    """One fact in random words, its value a number: RULER's second single needle."""

    text: ClassVar = {
        "begin": "Some facts are hidden in this text. Remember them.\n", "fact": " The number of ", "is": " is", "gap": " ",
        "dash": "-", "stop": ".", "ask": "\nAs the text says, the number of ", **_NOISE,
    }  # fmt: skip
    tokens: ClassVar = {name: i for i, name in enumerate(_NOISE)}
    counts: ClassVar = "words of filler"
    solved_examples: ClassVar = False
    keys: ClassVar = 1
    """How many keys have facts."""
    values: ClassVar = 1
    """How many facts each key has."""
    asked: ClassVar = 1
    """How many of the keys are asked for, one after another."""
    repeated: ClassVar = False
    """Whether the filler is one repeated sentence."""
    long: ClassVar = False
    """Whether a value is 32 hexadecimal digits and not a number of seven digits."""

    def needs(self) -> dict[str, int]:
        filler = 0 if self.repeated else twice_root(self.length)
        facts = self.keys * self.values
        return {"word": self.keys + filler, **({"group": _GROUPS * facts} if self.long else {"number": facts})}

    def rows(self, draw: Draw) -> list[Row]:
        facts = self.keys * self.values
        # before which filler word each fact is
        positions = draw("places").integers(facts, 0, self.length + 1).sort(-1).values.tolist()
        owners = draw("keys").order(facts).tolist()  # the key of each fact, in the order of the text
        filler = draw("filler").integers(self.length, 0, twice_root(self.length)).tolist()
        asked = draw("asked").order(self.keys)[:, : self.asked].tolist()
        return [self._row(*parts) for parts in zip(positions, owners, filler, asked, strict=True)]

    def _row(self, positions: list[int], owners: list[int], filler: list[int], asked: list[int]) -> Row:
        keys = [fact % self.keys for fact in owners]
        prompt: list[Item] = ["begin"]
        for at in range(self.length + 1):
            for fact, (position, key) in enumerate(zip(positions, keys, strict=True)):
                if position == at:
                    prompt += ["fact", ("word", key), "is", *self._value(fact), "stop"]
            if at < self.length:
                word: Item = f"noise {at % len(_NOISE)}" if self.repeated else ("word", self.keys + filler[at])
                prompt += [word] if self.repeated else ["gap", word]
        parts = []
        for key in asked:
            prompt += ["ask", ("word", key), "is"]
            for fact in [fact for fact, owner in enumerate(keys) if owner == key]:
                parts.append(Part(prompt, self._value(fact), min(9, 10 * positions[fact] // self.length)))
                prompt = []
        return parts

    def _value(self, fact: int) -> list[Item]:
        if not self.long:
            return ["gap", ("number", fact)]
        groups = [("group", fact * _GROUPS + i) for i in range(_GROUPS)]
        return [item for i, group in enumerate(groups) for item in ("dash" if i else "gap", group)]


class NeedleInNoise(Needle):
    """One fact in a sentence that is repeated: RULER's first single needle."""

    repeated: ClassVar = True


class LongNeedle(Needle):
    """One fact in random words, its value long: RULER's third single needle."""

    long: ClassVar = True


class ManyKeys(Needle):
    """Four facts with different keys, one of which is asked for."""

    keys: ClassVar = 4


class ManyValues(Needle):
    """Four facts with the same key; all values are asked for, in the order of the text."""

    values: ClassVar = 4


class ManyQueries(Needle):
    """Four facts with different keys, all of which are asked for, one after another."""

    keys: ClassVar = 4
    asked: ClassVar = 4
