"""Several examples in one row: a training context filled one example after another, the last one cut off."""

import torch
from torch import Tensor

from recollect.tasks.base import Batch


def packed(examples: Batch, size: Tensor, context: int, answers: int) -> Batch:
    """Rows of `context` tokens, each filled with examples of its own; an example that is cut off has no answers.

    `size` (rows, n) is how many tokens each example has, and `examples` holds the n examples of the first row, then
    those of the next. No row has more than `answers` answers.
    """
    rows, n = size.shape
    start = size.cumsum(dim=1) - size  # (rows, n)
    whole = start + size <= context
    column = torch.arange(examples.tokens.shape[1], device=size.device)
    place = (start[..., None] + column).where(column < size[..., None], context).clamp(max=context)
    tokens = torch.zeros(rows, context + 1, dtype=torch.int64, device=size.device)  # the last column is refuse
    tokens.scatter_(1, place.flatten(1), examples.tokens.unflatten(0, (rows, n)).flatten(1))

    def in_row(x: Tensor) -> Tensor:
        """What each example has (rows x n, any), side by side: (rows, n x any)."""
        return x.unflatten(0, (rows, n)).flatten(1)

    def moved(x: Tensor) -> Tensor:
        """Places in each example (-1 is none) as places in the row."""
        x = x.unflatten(0, (rows, n))
        return (x + start[..., None]).where((x >= 0) & whole[..., None], -1).flatten(1)

    trained = in_row(examples.trained & whole.flatten()[:, None])
    at = (~trained).byte().argsort(dim=1, stable=True)[:, :answers]  # the answers of whole examples first, in order
    trained = trained.gather(1, at)
    tags = {name: in_row(tag.expand_as(examples.answers)).gather(1, at) for name, tag in examples.tags.items()}
    return Batch(
        tokens=tokens[:, :context],
        positions=moved(examples.positions).gather(1, at).where(trained, 0),
        answers=in_row(examples.answers).gather(1, at).where(trained, 0),
        query=moved(examples.query),
        source=moved(examples.source).gather(1, at).where(trained, -1),
        trained=trained,
        scored=in_row(examples.scored).gather(1, at) & trained,
        tags={name: tag.where(trained, -1) for name, tag in tags.items()},
    )
