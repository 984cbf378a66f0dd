"""What the tasks of MAD share (Poli et al. 2024, "Mechanistic design and scaling of hybrid architectures")."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from recollect.tasks.base import AnswersTask, Batch


class MADTask(AnswersTask):
    """A task whose rows have `length` tokens."""

    if TYPE_CHECKING:
        length: int

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
