"""A mixture of tasks, trained and tested at once (the Based paper trains MQAR at five settings together).

Which part a row belongs to is a function of its number: the parts take turns by their weights, so that every block of
as many rows as the weights sum to has each part exactly as often as its weight says. Shorter rows are padded with 0 to
the longest, so each row costs as much as the longest does. The tag `part` gives accuracy part by part.
"""

from collections.abc import Mapping
from functools import cache
from math import gcd
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor
from torch.nn.functional import pad

from recollect.rng import Stream
from recollect.spec import SpecError
from recollect.tasks.base import Batch, Task
from recollect.tasks.duplicates import Duplicates
from recollect.tasks.spec import AnyTask

Weight = Annotated[int, Field(ge=1, le=1000)]
"""How many rows of a part there are for each row of a part of weight 1."""


class Mixture(Task):
    """Several tasks with one vocabulary, in turn."""

    kind: Literal["mixture"] = "mixture"
    parts: tuple[AnyTask, ...] = Field(min_length=1)
    """The tasks; all with the same vocabulary and the same headline accuracy. Each may come with its `weight`."""
    weights: tuple[Weight, ...] = ()
    """How many rows there are of each part, relative to the others; left out: as many of each."""

    @model_validator(mode="before")
    @classmethod
    def _weighted(cls, data: Any) -> Any:
        """Moves `weight` from the parts to `weights`, and gives equivalent weights (2, 2 and none) one form."""
        if not isinstance(data, Mapping):
            return data
        if not isinstance(data.get("parts"), list | tuple):
            example = "[mqar, {kind: mqar, length: 128, pairs: 8, weight: 2}]"
            raise SpecError(f"mixture: parts must be a list of tasks, such as {example}")
        parts, weights = data["parts"], data.get("weights") or ()
        if not isinstance(weights, list | tuple):  # in a study a list is an axis
            raise SpecError(f"mixture: weights must be a list, not {weights!r}; in a study give each part its `weight`")
        own = [part.get("weight", 1) if isinstance(part, Mapping) else 1 for part in parts]
        if any(isinstance(part, Mapping) and "weight" in part for part in parts):
            if weights:
                raise SpecError(f"mixture: weights {list(weights)} beside parts that have a weight of their own")
            parts = [{k: v for k, v in p.items() if k != "weight"} if isinstance(p, Mapping) else p for p in parts]
            weights = own
        if weights and len(weights) == len(parts) and all(isinstance(weight, int) and weight > 0 for weight in weights):
            weights = tuple(weight // gcd(*weights) for weight in weights)
            weights = weights if max(weights) > 1 else ()
        return {**data, "parts": parts, "weights": tuple(weights)}

    def _refusal(self) -> str | None:
        if self.weights and len(self.weights) != len(self.parts):
            return f"{len(self.weights)} weights for {len(self.parts)} parts"
        for i, part in enumerate(self.parts):
            if isinstance(part, Mixture | Duplicates) or part.reads_at_once:
                return f"part {i} is {part.kind!r}, which cannot be a part"
        for what in ("vocabulary", "accuracy"):
            if len(set(got := [getattr(part, what) for part in self.parts])) > 1:
                return f"all parts must have the same {what}, got {', '.join(map(str, got))}"
        return None

    @property
    def accuracy(self) -> Literal["answers", "rows"]:
        return self.parts[0].accuracy

    @property
    def vocabulary(self) -> int:
        return self.parts[0].vocabulary

    @property
    def row_length(self) -> int:
        return max(part.row_length for part in self.parts)

    @property
    def chance(self) -> float:
        """The mean of the parts' chances over all rows."""
        return sum(self.parts[part].chance for part in self.turns) / len(self.turns)

    @property
    def turns(self) -> tuple[int, ...]:
        """The parts of the first rows, after which they repeat."""
        return _turns(self.weights or (1,) * len(self.parts))

    def word(self, token: int) -> str:
        return self.parts[0].word(token)

    def for_test(self) -> "Mixture":
        return self.changed(parts=tuple(part.for_test() for part in self.parts))

    def sample(self, stream: Stream) -> Batch:
        turns = torch.tensor(self.turns, device=stream.device)
        part = turns[stream.numbers % len(turns)]  # (rows,)
        rows = [(part == i).nonzero()[:, 0] for i in range(len(self.parts))]
        batches = [task.sample(stream.select(r)) for task, r in zip(self.parts, rows, strict=True)]

        def whole(pieces: list[Tensor], fill: int) -> Tensor:
            width = max(piece.shape[1] for piece in pieces)
            wide = torch.cat([pad(piece, (0, width - piece.shape[1]), value=fill) for piece in pieces])
            return torch.empty_like(wide).index_copy_(0, torch.cat(rows), wide)

        def tag(name: str) -> Tensor:
            none = torch.tensor(-1, device=stream.device)
            return whole([b.tags.get(name, none).expand_as(b.answers) for b in batches], -1)

        fills = {"tokens": 0, "positions": 0, "answers": 0, "query": -1, "source": -1, "trained": 0, "scored": 0}
        names = sorted({name for batch in batches for name in batch.tags})
        return Batch(
            **{name: whole([getattr(b, name) for b in batches], fill) for name, fill in fills.items()},
            tags={name: tag(name) for name in names} | {"part": part[:, None]},
        )


@cache
def _turns(weights: tuple[int, ...]) -> tuple[int, ...]:
    """Each part as often as its weight says, interleaved evenly: the next is always the one furthest behind its share."""
    total, given, turns = sum(weights), [0] * len(weights), []
    for row in range(1, total + 1):
        behind = [weight * row - total * had for weight, had in zip(weights, given, strict=True)]
        turns.append(behind.index(max(behind)))
        given[turns[-1]] += 1
    return tuple(turns)
