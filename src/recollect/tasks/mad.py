"""What the tasks of MAD share (Poli et al. 2024, "Mechanistic design and scaling of hybrid architectures")."""

from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor

from recollect.tasks.base import Batch, Task


class MADTask(Task):
    """A task whose rows have `length` tokens from `vocab` ids. Its accuracy counts single answers."""

    if TYPE_CHECKING:  # fields that each task defines and documents
        length: int
        vocab: int

    accuracy: ClassVar[Literal["answers", "rows"]] = "answers"

    @property
    def vocabulary(self) -> int:
        return self.vocab

    @property
    def row_length(self) -> int:
        return self.length


def most_frequent_share(batch: Batch, written: Tensor, first: int, last: int) -> float:
    """The accuracy of guessing, in each row, the token from `first` up to (not including) `last` that is most frequent
    among `written` (rows, any), averaged over the rows."""
    counts = torch.zeros(len(written), last, dtype=torch.int64, device=written.device)
    counts = counts.scatter_add(1, written.clamp(max=last - 1), (written < last).long())[:, first:]
    guess = counts.argmax(dim=1, keepdim=True) + first
    right = ((batch.answers == guess) & batch.scored).sum(dim=1) / batch.scored.sum(dim=1)
    return right.double().mean().item()
