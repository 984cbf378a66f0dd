"""Copying (Jelassi et al. 2024; Okpekpe & Orvieto 2025, section 5).

An example is `$x|x.`: a string of i.i.d. letters, then the same string again. The copied letters and `.` are read, each
one token before it stands. A row is one example, or, packed, as many as fill the context, the last one cut off.
"""

from typing import Literal, Self

import torch
from pydantic import Field, model_validator

from recollect.rng import Stream
from recollect.spec import SpecError
from recollect.tasks.base import Batch, Task

ALPHABET = "*$|.abcdefghijklmnopqrstuvwxyz"
"""The 30 symbols by token id: pad, start, separator, end, letters."""
PAD, START, SEPARATOR, END, LETTERS = 0, 1, 2, 3, 4
"""Token ids of the specials and of the first letter."""


class Copy(Task):
    """Copying: a string of letters, then the same string again."""

    kind: Literal["copy"] = "copy"
    min_length: int = Field(default=5, ge=1)
    """Letters in the shortest string."""
    length: int = Field(default=20, ge=1)
    """Letters in the longest string; lengths are uniform between the two."""
    packed: bool = False
    """Fill a training context with several examples; tests always have one example a row."""
    context: int = Field(default=220, ge=5)
    """Tokens in a packed row."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.min_length > self.length:
            raise SpecError(f"copy: min_length {self.min_length} must be at most length {self.length}")
        if self.packed and self._example > self.context:
            raise SpecError(
                f"copy: length {self.length} does not fit context {self.context}: "
                f"an example has 2 x length + 3 = {self._example} tokens"
            )
        return self

    @property
    def _example(self) -> int:
        """Tokens of the longest example."""
        return 2 * self.length + 3

    @property
    def vocabulary(self) -> int:
        return len(ALPHABET)

    @property
    def row_length(self) -> int:
        return self.context if self.packed else self._example - 1  # nothing is read at the last `.`

    @property
    def chance(self) -> float:
        """Guessing every letter, over the lengths a row can have."""
        lengths = range(self.min_length, self.length + 1)
        return sum(26.0**-length for length in lengths) / len(lengths)

    def word(self, token: int) -> str:
        return ALPHABET[token]

    def for_test(self) -> "Copy":
        return self.changed(packed=False)

    def sample(self, stream: Stream) -> Batch:
        columns = self.context if self.packed else self._example
        examples = -(-columns // (2 * self.min_length + 3)) if self.packed else 1
        length = stream.integers(examples, self.min_length, self.length + 1)  # (rows, examples)
        letters = stream.integers(examples * self.length, LETTERS, LETTERS + 26)

        end = (2 * length + 3).cumsum(dim=1)  # (rows, examples), one past each example's `.`
        column = torch.arange(columns, device=stream.device).expand(stream.rows, -1).contiguous()
        example = torch.searchsorted(end, column, right=True).clamp(max=examples - 1)  # (rows, columns)
        size, stop = length.gather(1, example), end.gather(1, example)
        place = column - (stop - 2 * size - 3)  # place within the example: 0 is `$`, size + 1 is `|`
        copied = place - size - 2  # the letter of the copy that stands here; `size` is `.`

        letter = torch.where(copied >= 0, copied, place - 1).clamp(min=0)
        tokens = letters.gather(1, example * self.length + letter.clamp(max=self.length - 1))
        tokens = tokens.masked_fill(place == 0, START).masked_fill(copied == -1, SEPARATOR)
        tokens = tokens.masked_fill(copied == size, END).masked_fill(copied > size, PAD)

        whole = (copied >= 0) & (copied <= size) & (stop <= columns)  # answers of examples that are not cut off
        answers = columns // 2 if self.packed else self.length + 1
        at = (~whole).byte().argsort(dim=1, stable=True)[:, :answers]  # columns of answers first, in order
        trained = whole.gather(1, at)
        size, copied, start = size.gather(1, at), copied.gather(1, at), (stop - 2 * size - 3).gather(1, at)
        is_letter = trained & (copied < size)
        source = torch.where(is_letter, start + 1 + copied, -1)
        tags = {"letter": torch.where(trained, copied, -1), "length": torch.where(trained, size, -1)}
        batch = Batch(
            tokens=tokens[:, : self.row_length],
            positions=(at - 1).where(trained, 0),
            answers=tokens.gather(1, at).where(trained, PAD),
            query=(start + size + 1).where(trained & (copied == 0), -1),
            source=source,
            trained=trained,
            scored=is_letter,
            tags=tags,
        )
        if not self.packed:
            batch.tokens = batch.tokens.masked_fill(batch.tokens == END, PAD)
        return batch
