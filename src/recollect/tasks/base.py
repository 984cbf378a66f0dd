"""The base class of tasks: a frozen specification that samples a Batch."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from typing import Any, ClassVar, Literal, Self

import torch
from pydantic import SerializerFunctionWrapHandler, model_serializer, model_validator
from torch import Tensor

from recollect import rng
from recollect.rng import Stream
from recollect.spec import Spec, SpecError
from recollect.spec.source import reference, source_digest

MOST = 2**20
"""The largest vocabulary, the longest row and the most of anything in a row that the fields of a task allow."""
_DRAWN = 2**14  # training rows from which `seen_share` estimates how often rows repeat


@dataclass
class Batch:
    """Rows of tokens, and the positions at which answers are read. Loss and logits are computed there only."""

    tokens: Tensor
    """Token ids the model is fed: (rows, length), int64. Shorter rows are padded with 0 on the right."""
    positions: Tensor
    """Where answers are read, in reading order: (rows, answers), int64."""
    answers: Tensor
    """The correct token at each of these positions: (rows, answers), int64."""
    query: Tensor = None  # pyright: ignore[reportAssignmentType]  (filled in below)
    """Positions of the query: (rows, any), int64; -1 is padding. For display and analysis. None: where answers are read."""
    source: Tensor = None  # pyright: ignore[reportAssignmentType]
    """Position in the row of each answer's source: (rows, answers), int64; -1 where it does not occur in the row. None: -1."""
    trained: Tensor = None  # pyright: ignore[reportAssignmentType]
    """Which answers count in the loss: (rows, answers), bool. None: all."""
    scored: Tensor = None  # pyright: ignore[reportAssignmentType]
    """Which answers count in the accuracy: (rows, answers), bool. None: all that are trained."""
    tags: dict[str, Tensor] = field(default_factory=dict)
    """What accuracy is sliced by: each (rows, answers) or (rows, 1), int64; -1 where a row has no such tag."""
    candidates: Tensor | None = None
    """Where several answers are correct, all of them: (rows, candidates, answers), int64. Then `answers` is only the
    last of them, and a model is judged by what it decodes greedily."""

    def __post_init__(self) -> None:
        if self.query is None:
            self.query = self.positions
        if self.source is None:
            self.source = torch.full_like(self.positions, -1)
        if self.trained is None:
            self.trained = torch.ones_like(self.answers, dtype=torch.bool)
        if self.scored is None:
            self.scored = self.trained

    @classmethod
    def padded(
        cls, tokens: Tensor, positions: Tensor, answers: Tensor, trained: Tensor, tags: dict[str, Tensor], **others: Tensor
    ) -> "Batch":  # fmt: skip
        """Rows with different numbers of answers: those that are not `trained` become padding. `others` are the other fields."""
        others = {"query": positions.where(trained, -1), **others}
        if "source" in others:
            others["source"] = others["source"].where(trained, -1)
        tags = {name: tag.where(trained, -1) for name, tag in tags.items()}
        return cls(tokens, positions.where(trained, 0), answers.where(trained, 0), trained=trained, tags=tags, **others)

    def map(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        """The same batch with `change` applied to every tensor."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        tags = {name: change(tag) for name, tag in values.pop("tags").items()}
        return Batch(**{name: change(value) for name, value in values.items() if value is not None}, tags=tags)


class Task(Spec):
    """A recall task. A subclass has fields, and defines `vocabulary`, `row_length` and `sample`."""

    kind: str = ""
    """Which task. A task of your own leaves it out: it becomes the `module:Name` or `file.py:Name` it is found by."""

    accuracy: ClassVar[Literal["answers", "rows"]] = "rows"
    """What the headline accuracy counts: single answers, or rows whose every scored answer is right."""

    reads_at_once: ClassVar[bool] = False
    """Whether all answers are read at one position, and distinguished by their number: for models with `head: autoencoder`
    only."""

    version: ClassVar[int] = 1
    """Raised whenever the same seed gives other rows than before, so that runs of two versions are never mixed."""

    @model_validator(mode="before")
    @classmethod
    def _found_by(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or cls.model_fields["kind"].default:
            return data
        fields = {name: value for name, value in data.items() if name != "source"}
        return fields if "kind" in fields else {"kind": _name(cls), **fields}

    @model_serializer(mode="wrap")
    def _with_kind(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # `kind` equals its default, so a dump without defaults would lose which task this is; and a task of the user's
        # own carries a hash of its file, so that an edited file gives new runs
        from_user = not type(self).__module__.startswith("recollect.")
        source = {"source": source_digest(type(self))} if from_user else {}
        return {"kind": self.kind, **handler(self), **source}

    @model_validator(mode="after")
    def _refuse(self) -> Self:
        if refusal := self._refusal():
            raise SpecError(f"{self.kind}: {refusal}")
        return self

    def _refusal(self) -> str | None:
        """Why the fields do not fit each other, in words that follow the task's name; None where they do."""
        return None

    def lexicon(self) -> dict[str, range]:
        """The kinds of tokens in the order of their ids: how one is written, `{}` being its number, and the numbers they have."""
        return {}

    @property
    def vocabulary(self) -> int:
        """How many token ids there are: those of the lexicon or the field `vocab`, unless a task defines something else."""
        return sum(map(len, self.lexicon().values())) or self._field("vocab", "vocabulary")

    @property
    def row_length(self) -> int:
        """How many tokens a row has, padding included: the field `length`, unless a task defines something else."""
        return self._field("length", "row_length")

    @cached_property
    def row_answers(self) -> int:
        """How many answers a row has, padding included."""
        return _row_answers(type(self), self.model_dump_json())

    def _field(self, name: str, meaning: str) -> int:
        if name not in type(self).model_fields:
            raise TypeError(f"{type(self).__name__} must define {meaning}")
        return getattr(self, name)

    def sample(self, stream: Stream) -> Batch:
        """One row for each row of `stream`, drawn from it alone."""
        raise TypeError(f"{type(self).__name__} must define sample")

    def word(self, token: int) -> str:
        """A token in readable form: as the lexicon writes it, else its id."""
        first = 0
        for written, numbers in self.lexicon().items():
            if token < first + len(numbers):
                return written.format(numbers[token - first])
            first += len(numbers)
        return str(token)

    @property
    def chance(self) -> float:
        """The headline accuracy of the best guess by a model that knows the possible answers in a row, but not which belongs to
        a query.

        The possible answers are the tokens at the positions where an answer can be; where the headline counts rows, the
        whole strings there. The model knows how the task samples and this collection, without its order, but not the
        query. So it is 1 / K where K different values are possible, and otherwise the expected share of the most
        frequent. Rows are those of `for_test`. A task without its own definition gets 1 / vocabulary, a lower bound.
        """
        return 1.0 / self.vocabulary

    @property
    def remembered(self) -> range:
        """The tokens whose embeddings a run saves with `train.snapshots`: all, unless a task names some."""
        return range(self.vocabulary)

    def for_test(self) -> "Task":
        """The task that a model trained on this one is tested on."""
        return self

    def batch(self, seed: int, purpose: str, rows: int, device: str = "cpu") -> Batch:
        """The first `rows` rows of a seed for a purpose (`train`, `valid`, `test` or any other name, each independent).

        Tasks of other settings draw from the same streams: at one seed their rows are not independent of each other.
        """
        return self.sample(rng.stream(seed, purpose, torch.arange(rows, device=device)))

    def seen_share(self, train_rows: int) -> float:
        """An estimate of the share of test rows that also occur among `train_rows` training rows of the same form.

        Up to 2^14 training rows are drawn and compared; what more rows would add is extrapolated from the later half.
        """
        task, drawn = self.for_test(), min(train_rows, _DRAWN)
        train, test = _contents(task, "train", drawn), _contents(task, "test", _DRAWN // 8)
        early, new = (
            1 - sum(row in known for row in test) / len(test) for known in (set(train[: drawn // 2]), set(train))
        )
        return 1 - new * (new / early) ** (2 * (train_rows - drawn) / max(drawn, 1)) if new else 1.0


def check_row(task: Task) -> None:
    """Draw a row, and refuse a task of the user's own that no model of its vocabulary and length can be trained on."""
    row: Any = task.batch(0, "train", 1)
    if not isinstance(row, Batch):
        raise SpecError(f"{task.kind}: sample gives {type(row).__name__}, not a Batch")
    if row.tokens.shape != (1, task.row_length):
        raise SpecError(
            f"{task.kind}: a row has shape {tuple(row.tokens.shape)}, row_length says (1, {task.row_length})"
        )
    sizes = {"token": (row.tokens, task.vocabulary), "position": (row.positions, task.row_length)}
    sizes["answer"] = row.answers[row.trained | row.scored], task.vocabulary
    for name, (values, size) in sizes.items():
        if len(bad := values[(values < 0) | (values >= size)]):
            raise SpecError(f"{task.kind}: {name} {bad[0]} is not in 0 .. {size - 1}")


class AnswersTask(Task):
    """A task whose accuracy counts single answers."""

    accuracy: ClassVar[Literal["answers", "rows"]] = "answers"


@cache
def _row_answers(task: type[Task], fields: str) -> int:
    """Those of a row that is drawn. Equal tasks share it: the plan of a paper asks thousands of times."""
    return task.model_validate_json(fields).batch(0, "test", 1).answers.shape[1]


def _contents(task: Task, purpose: str, rows: int) -> list[bytes]:
    """What each of the first rows holds, drawn a thousand at a time."""
    parts = [rng.stream(0, purpose, numbers) for numbers in torch.arange(rows).split(1000) if len(numbers)]
    return [row.tobytes() for part in parts for row in task.sample(part).tokens.numpy()]


def _name(cls: type[Task]) -> str:
    """The name by which other processes find a task's class; a task without one can still be shown."""
    try:
        return reference(cls)
    except SpecError:
        return f"{cls.__module__}:{cls.__qualname__}"


def redrawn(stream: Stream, draw: Callable[[Stream, Tensor], tuple[Tensor, Tensor]]) -> Tensor:
    """Rows drawn again until each is good; must be a task's last draw.

    `draw(stream, rows)` gives the values of some rows, and which of them are good. A bad row is drawn again from its
    own stream, so that its content does not depend on the other rows.
    """
    rows = torch.arange(stream.rows, device=stream.device)
    values, good = draw(stream, rows)
    while len(bad := (~good).nonzero()[:, 0]):
        stream, rows = stream.select(bad), rows[bad]
        values[rows], good = draw(stream, rows)
    return values


def largest_share(n: int, kinds: float) -> float:
    """The expected share of the most frequent kind among `n` things, each equally likely to be of any of `kinds` kinds."""
    each, sure = n / kinds, math.ceil(n / kinds)  # one kind is sure to have that many
    m = torch.arange(sure, min(n, sure + int(12 * each**0.5) + 40), dtype=torch.float64)
    none_above = torch.special.gammaincc(m + 1, torch.tensor(each, dtype=torch.float64)) ** kinds  # counts as Poisson
    return (sure + (1 - none_above).sum().item()) / n
