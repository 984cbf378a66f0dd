"""Rules that a task must satisfy, one function per rule.

Each takes a task and how many rows to look at, raises AssertionError with what is wrong and where, and returns None,
or a note if the rule does not apply. An answer *counts* if it is trained or scored; others are padding.
"""

import json
import pickle
import random
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recollect import rng
from recollect.tasks.base import Batch, Task
from recollect.testing.check import Check, Conformance, checks


def shapes(task: Task, rows: int = 64) -> None:
    """Tensors have the documented shapes and types, and every row has an answer that counts."""
    batch: Any = task.batch(0, "train", rows)
    assert isinstance(batch, Batch), f"sample gives {type(batch).__name__}, not a Batch"
    answers = batch.answers.shape[-1]
    expected = {"tokens": task.row_length, "positions": answers, "answers": answers, "source": answers, "query": None}
    expected |= {"trained": answers, "scored": answers}
    for name, columns in expected.items():
        value = getattr(batch, name)
        kind = torch.bool if name in ("trained", "scored") else torch.int64
        assert value.dtype == kind, f"{name} is {value.dtype}, not {kind}"
        want = (rows, value.shape[-1] if columns is None else columns)
        assert value.shape == want, f"{name} is {tuple(value.shape)}, not {want}"
    for name, tag in batch.tags.items():
        assert tag.dtype == torch.int64, f"tag {name!r} is {tag.dtype}, not torch.int64"
        want = ((rows, answers), (rows, 1))
        assert tag.shape in want, f"tag {name!r} is {tuple(tag.shape)}, not {want[0]} or {want[1]}"
    if batch.candidates is not None:
        got = batch.candidates.shape
        assert (got[0], got[-1]) == (rows, answers), f"candidates are {tuple(got)}, not ({rows}, any, {answers})"
    _none(~_counted(batch).any(dim=1, keepdim=True), "a row has no answer that is trained or scored")


def tokens(task: Task, rows: int = 64) -> None:
    """Every token, and every answer that counts, is in the vocabulary, in training as in testing, and is a word."""
    batch, known = task.batch(0, "train", rows), range(task.vocabulary)
    outside = (batch.tokens < 0) | (batch.tokens >= len(known))
    _none(outside, f"a token is outside the vocabulary of {len(known)}", token=batch.tokens, axis="position")
    outside = ((batch.answers < 0) | (batch.answers >= len(known))) & _counted(batch)
    _none(outside, f"an answer is outside the vocabulary of {len(known)}", answer=batch.answers)
    for token in sorted({0, len(known) - 1, *batch.tokens[0].tolist()}):
        word: Any = task.word(token)
        assert word, f"word({token}) is empty"
        assert isinstance(word, str), f"word({token}) gives {word!r}, not text"
    assert 0 < task.chance <= 1, f"chance is {task.chance}, not a share"
    tested = task.for_test().vocabulary
    assert tested == task.vocabulary, f"trained with {task.vocabulary} tokens and tested with {tested}"


def positions(task: Task, rows: int = 64) -> None:
    """Answers are read within the row, in reading order, and queries are within the row."""
    batch, length = task.batch(0, "train", rows), task.row_length
    counted = _counted(batch)
    outside = (batch.positions < 0) | (batch.positions >= length)
    _none(outside, f"an answer is read outside the row of {length}", position=batch.positions)
    least = batch.positions[:, :-1] + (not task.reads_at_once)
    backwards = (batch.positions[:, 1:] < least) & counted[:, 1:] & counted[:, :-1]
    before = batch.positions[:, :-1]
    _none(backwards, "the next answer is not read further on", position=before, next=batch.positions[:, 1:])
    _none((batch.query < -1) | (batch.query >= length), f"a query is outside the row of {length}", at=batch.query)


def sources(task: Task, rows: int = 64) -> None:
    """A source holds the answer, and comes before the position where the answer is read."""
    batch = task.batch(0, "train", rows)
    source, named = batch.source, (batch.source >= 0) & _counted(batch)
    outside = ((source < -1) | (source >= task.row_length)) & _counted(batch)
    _none(outside, f"a source is outside the row of {task.row_length} and not -1", source=source)
    held = batch.tokens.gather(1, source.clamp(0, task.row_length - 1))
    wrong = named & (held != batch.answers)
    _none(wrong, "the source does not hold the answer", source=source, holds=held, answer=batch.answers)
    late = named & (source >= batch.positions)
    _none(
        late, "the source is not before the position where the answer is read", source=source, position=batch.positions
    )


def answerable(task: Task, rows: int = 64, keyed: bool = False) -> str | None:
    """Every answer that counts can be found in its row; if `keyed`, right after the token it is read at."""
    batch = task.batch(0, "train", rows)
    counted = _counted(batch)
    if not (batch.source[counted] >= 0).any():
        return "names no sources"
    asked = batch.tokens.gather(1, batch.positions)
    if not keyed:
        lost = (counted & (batch.source < 0)).all(dim=1, keepdim=True)
        _none(lost, "a row names no source for any of its answers")
        return None
    _none(counted & (batch.source < 1), "unanswerable: no source", asked=asked, answer=batch.answers)
    key = batch.tokens.gather(1, (batch.source - 1).clamp(min=0))
    _none(
        counted & (key != asked), "unanswerable: the query is not the token before the source",
        position=batch.positions, asked=asked, source=batch.source, before=key,
    )  # fmt: skip
    return None


def alignment(task: Task, rows: int = 64) -> None:
    """Labels are not off by one: an answer is never the token just fed, and where answers are fed it is the next."""
    batch = task.batch(0, "train", rows)
    counted, now, last = _counted(batch), batch.positions, task.row_length - 1

    def fed(offset: int) -> Tensor:
        return batch.tokens.gather(1, (now + offset).clamp(max=last))

    assert (fed(0) != batch.answers)[counted].any(), "off by one: every answer is the token fed where it is read"
    run = torch.zeros_like(counted)  # answers that are read right before another: their tokens may be fed
    run[:, :-1] = counted[:, :-1] & counted[:, 1:] & (now[:, 1:] == now[:, :-1] + 1)
    right, further = run & (fed(1) == batch.answers), run & (now + 2 <= last)
    if further.any() and (run & ~right).any():
        late = (fed(2) == batch.answers)[further]
        assert not late.all(), "off by one: every answer is the token after the next, counted from where it is read"
    if right.sum() > 0.75 * run.sum():  # answers are fed; of two symbols every other one is right by chance
        _none(run & ~right, "the token fed next is not the answer", position=now, next=fed(1), answer=batch.answers)


def seeds(task: Task, rows: int = 64) -> None:
    """The same seed gives the same batch; another seed, purpose or row gives another."""
    first = task.batch(0, "train", rows)
    _same(task.batch(0, "train", rows), first, "the same seed gives another batch:")
    valid, test = task.batch(0, "valid", rows), task.batch(0, "test", rows)
    others = [("seed", task.batch(1, "train", rows), first), ("purpose", valid, first), ("purpose", test, first)]
    for what, one, other in [*others, ("purpose", valid, test)]:
        assert not torch.equal(one.tokens, other.tokens), f"another {what} gives the same tokens: it is ignored"
    assert (first.tokens != first.tokens[:1]).any(), f"all {rows} rows hold the same tokens: the row is ignored"


def other_rows(task: Task, rows: int = 64) -> None:
    """A row drawn alone, or beside rows of other seeds, is the row drawn in its batch."""
    group, numbers = task.batch(0, "train", rows), torch.arange(rows)
    for row in (0, 1, rows - 1):
        alone = task.sample(rng.stream(0, "train", numbers[row : row + 1]))
        _same(alone, group.map(lambda x, row=row: x[row : row + 1]), f"row {row} drawn alone differs:")
    mixed = task.sample(rng.stream(torch.tensor([7, 0, 9]), "train", torch.tensor([3, 1, 2])))
    _same(mixed.map(lambda x: x[1:2]), group.map(lambda x: x[1:2]), "row 1 drawn beside rows of other seeds differs:")


def own_randomness(task: Task, rows: int = 64) -> None:
    """Sampling draws from its stream alone: the global generators of torch, numpy and Python do not change."""

    def states() -> dict[str, bytes]:
        states = {"torch": torch.get_rng_state().tolist(), "numpy": np.random.get_state(), "random": random.getstate()}  # noqa: NPY002
        return {name: pickle.dumps(state) for name, state in states.items()}

    before = states()
    task.batch(0, "train", rows)
    used = [name for name, state in states().items() if state != before[name]]
    assert not used, f"sampling draws from the global generator of: {', '.join(used)}"


def specification(task: Task, rows: int = 64) -> None:
    """A task is its specification: written as JSON and read back it is equal, and samples the same rows."""
    written = json.dumps(task.canonical())
    again = type(task).model_validate(json.loads(written))
    assert again == task, f"{written} reads back as {again!r}, not as {task!r}"
    _same(again.batch(0, "train", rows), task.batch(0, "train", rows), f"{written} read back samples another batch:")


TASK_CHECKS: list[Check] = checks(
    shapes, tokens, positions, sources, answerable, alignment, seeds, other_rows, own_randomness, specification
)


class TaskConformance(Conformance, rules=TASK_CHECKS):
    """Tests for your own task: inherit, call the class Test.., and set `task`."""

    task: Task
    rows: int = 64
    """How many rows are looked at."""
    keyed: bool = False
    """Whether the token an answer is read at is its key: the same token comes right before the answer's source."""

    def given(self, check: Check) -> dict[str, Any]:
        more = {"keyed": self.keyed} if check.function is answerable else {}
        return {"task": self.task, "rows": self.rows, **more}


def _counted(batch: Batch) -> Tensor:
    """Which answers are more than padding: (rows, answers), bool."""
    return batch.trained | batch.scored


def _none(bad: Tensor, what: str, axis: str = "answer", **values: Tensor) -> None:
    """Nothing is `bad` (rows, any), or an error with the first bad position and the values there."""
    if bad.any():
        row, column = bad.nonzero()[0].tolist()
        here = ", ".join(f"{name} {value[row, column]}" for name, value in values.items())
        raise AssertionError(f"{what}: row {row}, {axis} {column}" + (f": {here}" if here else ""))


def _same(got: Batch, expected: Batch, what: str) -> None:
    names = [f.name for f in fields(Batch) if f.name != "tags" and getattr(expected, f.name) is not None]
    pairs = {name: (getattr(got, name), getattr(expected, name)) for name in names}
    assert got.tags.keys() == expected.tags.keys(), f"{what} tags {sorted(got.tags)}, not {sorted(expected.tags)}"
    pairs |= {f"tag {name!r}": (tag, expected.tags[name]) for name, tag in got.tags.items()}
    for name, (value, other) in pairs.items():
        assert value.shape == other.shape, f"{what} {name} is {tuple(value.shape)}, not {tuple(other.shape)}"
        value, other = value.flatten(1), other.flatten(1)
        _none(value != other, f"{what} {name}", axis="column", got=value, expected=other)
