"""Planted faults in tasks: each is caught by its check, with a message that says what is wrong and where."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from recollect import rng
from recollect.rng import Stream
from recollect.tasks.base import Batch, Task
from recollect.testing import TASK_CHECKS, TaskConformance

RULES = {check.name: check.function for check in TASK_CHECKS}


def broken(rule: str, task: type[Task]) -> str:
    """What the check called `rule` says about a task that breaks it."""
    with pytest.raises(AssertionError) as caught:
        RULES[rule](task())
    return str(caught.value)


class Pairs(Task):
    """Three pairs `k v`, then one key; the answer is read there. Keys 1..8, values 9..16."""

    @property
    def vocabulary(self) -> int:
        return 17

    @property
    def row_length(self) -> int:
        return 7

    def sample(self, stream: Stream) -> Batch:
        keys, values = 1 + stream.order(8)[:, :4], 9 + stream.order(8)[:, :4]
        asked = stream.integers(1, 0, 3)
        tokens = torch.cat([torch.stack([keys, values], dim=2)[:, :3].flatten(1), keys.gather(1, asked)], dim=1)
        positions = torch.full_like(asked, 6)
        return Batch(tokens, positions, values.gather(1, asked), query=positions, source=2 * asked + 1)


class TestPairs(TaskConformance):
    """The suite as a user inherits it, on a task without faults."""

    task, keyed = Pairs(), True


def changed(**values) -> type[Task]:
    """`Pairs` with some tensors of its batch replaced by functions of the batch."""

    def sample(self, stream: Stream) -> Batch:
        batch = Pairs().sample(stream)
        for name, change in values.items():
            setattr(batch, name, change(batch))
        return batch

    return type("Changed", (Pairs,), {"sample": sample})


def elsewhere(batch: Batch) -> Tensor:
    """The row, but asking for a key that is not in it."""
    tokens = batch.tokens.clone()
    tokens[:, 6] = 8 - (tokens[:, 0:6:2] == 8).any(1).long() * (1 + (tokens[:, 0:6:2] == 7).any(1).long())
    return tokens


def read_twice(offset: int, at: Callable[[Tensor], Tensor] = torch.zeros_like) -> type[Task]:
    """Read at positions 3 and 4 the tokens `offset` further on, but in the rows `at` another."""

    def answers(batch: Batch) -> Tensor:
        wrong = at(torch.arange(len(batch.tokens)))[:, None].long()
        return (batch.tokens[:, 3 + offset : 5 + offset] + wrong) % 17

    def every(value: int | bool) -> Callable[[Batch], Tensor]:
        return lambda batch: torch.full((len(batch.tokens), 2), value)

    return changed(
        positions=lambda batch: torch.tensor([[3, 4]]).expand(len(batch.tokens), -1),
        answers=answers, source=every(-1), trained=every(True), scored=every(True),
    )  # fmt: skip


def test_unanswerable_query():
    message = broken("sources", changed(answers=lambda b: 9 + (b.answers - 8) % 8))
    assert message.startswith("the source does not hold the answer: row 0, answer 0: source ")
    with pytest.raises(AssertionError, match=r"unanswerable: the query is not .*: row \d+, answer 0: position 6"):
        RULES["answerable"](changed(tokens=elsewhere)(), keyed=True)
    with pytest.raises(AssertionError, match=r"unanswerable: no source: row \d+, answer 0: asked"):
        RULES["answerable"](changed(source=lambda b: b.source.where(b.source > 1, -1))(), keyed=True)


def test_label_off_by_one():
    late = changed(positions=lambda b: b.source, answers=lambda b: b.tokens.gather(1, b.source))
    assert broken("alignment", late) == "off by one: every answer is the token fed where it is read"
    assert broken("sources", late).startswith(
        "the source is not before the position where the answer is read: row 0, answer 0: source"
    )
    assert broken("alignment", read_twice(2)).startswith("off by one: every answer is the token after the next")
    RULES["alignment"](read_twice(1)())
    wrong = read_twice(1, at=lambda rows: rows % 8 == 3)
    assert broken("alignment", wrong).startswith(
        "the token fed next is not the answer: row 3, answer 0: position 3, next"
    )
    with pytest.raises(AssertionError, match="the query is not the token before the source: row 0, answer 0"):
        RULES["answerable"](changed(positions=lambda b: b.positions - 1)(), keyed=True)


class IgnoresSeed(Pairs):
    def sample(self, stream: Stream) -> Batch:
        return super().sample(rng.stream(0, "always", stream.numbers))


class IgnoresRow(Pairs):
    def sample(self, stream: Stream) -> Batch:
        return super().sample(stream.select(torch.zeros(stream.rows, dtype=torch.int64)))


class DrawsGlobally(Pairs):
    def sample(self, stream: Stream) -> Batch:
        return super().sample(rng.stream(torch.randint(1000, ()), "any", stream.numbers))


class SeesOtherRows(Pairs):
    def sample(self, stream: Stream) -> Batch:
        return super().sample(rng.stream(stream.rows, "together", stream.numbers))


def test_ignored_seed():
    assert broken("seeds", IgnoresSeed) == "another seed gives the same tokens: it is ignored"
    assert broken("seeds", IgnoresRow) == "all 64 rows hold the same tokens: the row is ignored"
    assert broken("seeds", DrawsGlobally).startswith("the same seed gives another batch: tokens: row ")
    assert broken("own_randomness", DrawsGlobally) == "sampling draws from the global generator of: torch"
    assert broken("other_rows", SeesOtherRows).startswith("row 0 drawn alone differs: tokens: row 0, column ")


def test_malformed_batches():
    message = broken("tokens", changed(tokens=lambda b: b.tokens + 1))
    assert message.startswith("a token is outside the vocabulary of 17: row ")
    assert broken("shapes", changed(answers=lambda b: b.answers.int())) == "answers is torch.int32, not torch.int64"
    assert broken("shapes", changed(tokens=lambda b: b.tokens[:, :6])) == "tokens is (64, 6), not (64, 7)"
    assert "row 0, answer 0: position 7" in broken("positions", changed(positions=lambda b: b.positions + 1))
    assert "no answer that is trained or scored: row 0" in broken(
        "shapes", changed(trained=lambda b: b.answers < 0, scored=lambda b: b.answers < 0)
    )


class Forgets(Pairs):
    size: int = 3

    def canonical(self) -> dict:
        return {}


def test_specification_that_does_not_come_back():
    with pytest.raises(AssertionError, match=r"\{\} reads back as Forgets\(.*size=3\), not as .*size=4"):
        RULES["specification"](Forgets(size=4))
