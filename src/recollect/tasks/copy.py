"""Copying (Jelassi et al. 2024; Okpekpe & Orvieto 2025, section 5).

An example is `$x|x.`: a string of i.i.d. letters, then the same string again. The copied letters and `.` are each predicted
from the token before. A row is one example, or, packed, as many as fill the context, the last one cut off. With `reverse`
the copy is written backwards: the palindromes of Kimi Linear (Kimi Team 2025), in this alphabet and with `$` and `.` around them.
"""

from math import comb
from typing import Literal

import torch
from pydantic import Field

from recollect.rng import Stream
from recollect.tasks.base import MOST, Batch, Task
from recollect.tasks.packing import packed

ALPHABET = "*$|.abcdefghijklmnopqrstuvwxyz"
"""The 30 symbols by token id: pad, start, separator, end, letters."""
PAD, START, SEPARATOR, END, LETTERS = 0, 1, 2, 3, 4
"""Token ids of the specials and of the first letter."""


class Copy(Task):
    """Copying: a string of letters, then the same string again."""

    kind: Literal["copy"] = "copy"
    min_length: int = Field(default=5, ge=1)
    """Letters in the shortest string."""
    length: int = Field(default=20, ge=1, le=MOST)
    """Letters in the longest string; lengths are uniform between the two."""
    packed: bool = False
    """Fill a training context with several examples; tests always have one example per row."""
    context: int = Field(default=220, ge=5, le=MOST)
    """Tokens in a packed row."""
    reverse: bool = False
    """Write the copy backwards, from the last letter to the first."""

    def _refusal(self) -> str | None:
        if self.min_length > self.length:
            return f"min_length {self.min_length} must be at most length {self.length}"
        if self.packed and self._example > self.context:
            tokens = f"2 x length + 3 = {self._example}"
            return f"length {self.length} does not fit context {self.context}: an example has {tokens} tokens"
        return None

    @property
    def _example(self) -> int:
        """Tokens of the longest example."""
        return 2 * self.length + 3

    @property
    def row_length(self) -> int:
        return self.context if self.packed else self._example - 1  # nothing is read at the last `.`

    @property
    def chance(self) -> float:
        """The accuracy of guessing the order of the string's letters, averaged over the lengths that a row can have."""
        lengths = self.length - self.min_length + 1
        some = range(self.min_length, self.min_length + min(lengths, 40))  # longer ones are never guessed
        return sum(comb(length + 25, 25) / 26**length for length in some) / lengths

    def lexicon(self) -> dict[str, range]:
        return dict.fromkeys(ALPHABET, range(1))

    def for_test(self) -> "Copy":
        return self.changed(packed=False)

    def sample(self, stream: Stream) -> Batch:
        examples = -(-self.context // (2 * self.min_length + 3)) if self.packed else 1
        size = stream.integers(examples, self.min_length, self.length + 1)  # (rows, examples)
        letters = stream.integers(examples * self.length, LETTERS, LETTERS + 26).view(-1, self.length)
        length, letter = size.view(-1, 1), torch.arange(self.length + 1, device=stream.device)

        position = torch.arange(self._example, device=stream.device)  # in an example: 0 is `$`, length + 1 is `|`
        copied = position - length - 2  # the number of the copied letter here; `length` is `.`
        again = length - 1 - copied if self.reverse else copied
        tokens = letters.gather(1, torch.where(copied >= 0, again, position - 1).clamp(0, self.length - 1))
        tokens = tokens.masked_fill(position == 0, START).masked_fill(copied == -1, SEPARATOR)
        tokens = tokens.masked_fill(copied == length, END).masked_fill(copied > length, PAD)

        trained, is_letter = letter <= length, letter < length  # (rows x examples, length + 1)
        at = (length + 2 + letter).where(trained, 0)
        source = (length - letter if self.reverse else 1 + letter).where(is_letter, -1)
        tags = {"letter": letter, "length": length}
        batch = Batch.padded(
            tokens, at - 1, tokens.gather(1, at), trained, tags, query=length + 1, source=source, scored=is_letter
        )
        if self.packed:
            return packed(batch, 2 * size + 3, self.context, answers=self.context // 2)
        batch.tokens = tokens[:, :-1].masked_fill(tokens[:, :-1] == END, PAD)  # nothing is read at the last `.`
        return batch
