"""A mixture of tasks, trained and tested at once (the Based paper trains MQAR at five settings together).

Row r is a row of part r modulo the number of parts, padded to the longest. The tag `part` gives accuracy part by part.
"""

from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor
from torch.nn.functional import pad

from recollect.rng import Stream
from recollect.spec import SpecError
from recollect.tasks.base import Batch, Task
from recollect.tasks.duplicates import Duplicates
from recollect.tasks.spec import AnyTask


class Mixture(Task):
    """Several tasks with one vocabulary, in turn."""

    kind: Literal["mixture"] = "mixture"
    parts: tuple[AnyTask, ...] = Field(min_length=1)
    """The tasks; all with the same vocabulary and the same headline accuracy."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        for i, part in enumerate(self.parts):
            if isinstance(part, Mixture | Duplicates):
                raise SpecError(f"mixture: part {i} is {part.kind!r}, which cannot be a part")
        for what in ("vocabulary", "accuracy"):
            got = [getattr(part, what) for part in self.parts]
            if len(set(got)) > 1:
                raise SpecError(f"mixture: all parts must have the same {what}, got {', '.join(map(str, got))}")
        return self

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
        """The mean over the parts."""
        return sum(part.chance for part in self.parts) / len(self.parts)

    def word(self, token: int) -> str:
        return self.parts[0].word(token)

    def for_test(self) -> "Mixture":
        return self.changed(parts=tuple(part.for_test() for part in self.parts))

    def sample(self, stream: Stream) -> Batch:
        part = stream.numbers % len(self.parts)  # (rows,)
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
