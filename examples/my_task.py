"""A task of your own: a list of different items, then one of them again. What came after it in the list?

recollect show task examples/my_task.py:Successor
recollect probe examples/my_mixer.py:MyMixer --task examples/my_task.py:Successor
"""

from typing import ClassVar, Literal

import torch
from pydantic import Field, model_validator

from recollect.rng import Stream
from recollect.spec import SpecError
from recollect.tasks import Batch, Task


class Successor(Task):
    """What came after this item?"""

    items: int = Field(default=16, ge=2)
    """Items in the list."""
    vocab: int = Field(default=32, ge=2)
    """Different items there are."""

    accuracy: ClassVar[Literal["answers", "rows"]] = "answers"

    @model_validator(mode="after")
    def _possible(self) -> "Successor":
        if self.items > self.vocab:
            raise SpecError(f"items {self.items} are more than the {self.vocab} that vocab has")
        return self

    @property
    def vocabulary(self) -> int:
        return self.vocab

    @property
    def row_length(self) -> int:
        return self.items + 1

    @property
    def chance(self) -> float:
        return 1 / (self.items - 1)

    def sample(self, stream: Stream) -> Batch:
        """Every draw comes from `stream`, so a row is the same on any device and whatever the other rows are."""
        items = stream.bijection(self.vocab)(torch.arange(self.items, device=stream.device))  # (rows, items)
        asked = stream.integers(1, 0, self.items - 1)  # (rows, 1): never the last
        tokens = torch.cat([items, items.gather(1, asked)], dim=1)
        last = torch.full_like(asked, self.items)
        return Batch(
            tokens,
            positions=last,
            answers=items.gather(1, asked + 1),
            query=last,
            source=asked + 1,
            tags={"gap": last - asked},
        )
