"""One example of a task in readable form: what the task asks, the tokens, and under them the role of each."""

import inspect
from collections.abc import Iterator

import torch
from rich.console import Console, ConsoleOptions
from rich.text import Text

from recollect import rng
from recollect.tasks.base import Batch, Task
from recollect.tasks.mixture import Mixture

_ANSWER = ("positions", "answers", "source", "trained", "scored")
_QUESTION, _READ, _SOURCE, _PAD = "bold yellow", "bold cyan", "bold green", "dim"
_LISTED = 24
"""How many answers are listed. Where more than that count in the loss only, they are neither numbered nor marked."""


class Example:
    """One example of a task, the row of this number of a seed, drawn to the width of the console it is printed on; with
    `describe` also what the task asks and what a guess scores."""

    def __init__(self, task: Task, seed: int = 0, number: int = 0, describe: bool = True):
        self.task, self.seed, self.number, self.describe = task, seed, number, describe
        self.row: Batch = task.sample(rng.stream(seed, "show", torch.tensor([number]))).map(lambda x: x[0])
        part = task.parts[self.row.tags["part"]] if isinstance(task, Mixture) else task
        self.word = part.word
        self.tokens: list[int] = self.row.tokens.tolist()
        self.length = len(self.tokens)
        self.question = {p for p in self.row.query.tolist() if p >= 0}
        answers = zip(*(getattr(self.row, name).tolist() for name in _ANSWER), strict=True)
        trained = [answer for answer in answers if answer[-2]]
        scored = [answer for answer in trained if answer[-1]]
        self.unmarked = len(trained) - len(scored) if len(trained) - len(scored) > _LISTED else 0
        self.answers = scored if self.unmarked else trained
        self.read = {position: number for number, (position, *_) in enumerate(self.answers, 1)}
        self.sources: dict[int, list[int]] = {}
        for number, (_, _, source, *_) in enumerate(self.answers, 1):
            if source >= 0:
                self.sources.setdefault(source, []).append(number)
        self.asked_about = self._copies() if self.row.candidates is not None or not self.sources else set()
        while self.tokens[-1] == 0 and len(self.tokens) - 1 not in self.read:  # padding is left out
            self.tokens.pop()

    def _copies(self) -> set[int]:
        """The positions of the question's tokens elsewhere in the row: all of them where several answers are right, and
        otherwise the only one: marks on a frequent token would be of no use."""
        asked = [self.tokens[position] for position in sorted(self.question)]
        starts = [p for p in range(self.length) if asked and self.tokens[p : p + len(asked)] == asked]
        if self.row.candidates is None and len(starts) > 2:
            return set()
        return {p + i for p in starts for i in range(len(asked))} - self.question

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        padding = self.length - len(self.tokens)
        title = f"{self.task.kind}: a row of {self.length} tokens from a vocabulary of {self.task.vocabulary}"
        title += f", seed {self.seed}" + (f", row {self.number}" if self.number else "")
        title += f", part {self.row.tags['part'].item()}" if isinstance(self.task, Mixture) else ""
        yield Text(title + (f" (the last {padding} are padding)" if padding else ""), "bold")
        yield from self._description() if self.describe else ()
        yield from self._grid(options.max_width)
        several = any(len(numbers) > 1 for numbers in self.sources.values())
        source = "=n source of answer n" + (" (+m: and of m more)" if several else "")
        marks = [("? question", _QUESTION), ("^n answer n is read here", _READ), (source, _SOURCE)]
        marks += [("! same tokens as the question", _SOURCE)] if self.asked_about else []
        yield Text("   ").join(Text(meaning, style) for meaning, style in marks)
        some = any(not scored for *_, scored in self.answers)
        yield Text("Answers, and where each is read" + (" (* in the loss, not in the accuracy):" if some else ":"))
        yield from self._list(options.max_width)

    def _description(self) -> Iterator[Text]:
        """What the task asks, what a guess scores, and what accuracy is sliced by."""
        cls = type(self.task)
        yield Text(_first_line(cls.__doc__))
        chance = inspect.getattr_static(cls, "chance")
        guess = "" if chance is inspect.getattr_static(Task, "chance") else _first_line(inspect.getdoc(chance))
        counts = {"rows": "whole rows", "answers": "single answers"}[self.task.accuracy]
        sliced = f" Sliced by: {', '.join(self.row.tags)}." if self.row.tags else ""
        yield Text(f"Accuracy counts {counts}; chance is {self.task.chance:.3g}{guess and f': {guess}'}.{sliced}")

    def _cell(self, position: int) -> tuple[str, str, str]:
        """A token's word, its mark and its style."""
        mark, style = "", ""
        if position in self.sources:
            first, *more = self.sources[position]
            mark, style = f"={first}" + (f"+{len(more)}" if more else ""), _SOURCE
        if position in self.asked_about:
            mark, style = mark + "!", _SOURCE
        if position in self.question:
            mark, style = mark + "?", _QUESTION
        if position in self.read:
            mark, style = f"{mark}^{self.read[position]}", _QUESTION if position in self.question else _READ
        return self.word(self.tokens[position]), mark, style or (_PAD if self.tokens[position] == 0 else "")

    def _grid(self, width: int) -> Iterator[Text]:
        cells = [self._cell(position) for position in range(len(self.tokens))]
        cell = 1 + max(max(len(word), len(mark)) for word, mark, _ in cells)
        number = len(str(len(cells))) + 2  # each line starts with the number of its first token
        columns = max(1, (width - number) // cell)
        for start in range(0, len(cells), columns):
            line = cells[start : start + columns]
            first = f"{start:>{number - 2}}  "
            words = [(word.ljust(cell), style) for word, _, style in line]
            marks = [(mark.ljust(cell), style) for _, mark, style in line]
            yield Text.assemble((first, _PAD), *words, no_wrap=True)
            if any(mark for _, mark, _ in line):
                yield Text.assemble(" " * number, *marks, no_wrap=True)

    def _list(self, width: int) -> Iterator[Text]:
        notes = []
        for number, (position, answer, _, _, scored) in enumerate(self.answers[:_LISTED], 1):
            notes.append(f"{number}: {self.word(answer)} at {position}" + ("" if scored else " *"))
        cell = 3 + max(map(len, notes))
        columns = max(1, width // cell)
        for start in range(0, len(notes), columns):
            yield Text("".join(note.ljust(cell) for note in notes[start : start + columns]).rstrip())
        if (more := len(self.answers) - _LISTED) > 0:
            yield Text(f"and {more} more")
        if self.unmarked:
            yield Text(f"Another {self.unmarked} tokens count in the loss only.")
        if self.row.candidates is not None:
            grams = (" ".join(self.word(token) for token in gram) for gram in self.row.candidates.tolist())
            yield Text("Equally right: " + ", ".join(grams))


def _first_line(text: str | None) -> str:
    """The first sentence of a docstring, without its full stop."""
    return " ".join((text or "").split("\n\n")[0].split()).rstrip(".")
