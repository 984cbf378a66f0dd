"""Several examples in one row: a training context filled one example after another, the last one cut off."""

import torch
from torch import Tensor

from recollect.tasks.base import Batch


def packed(examples: Batch, size: Tensor, context: int, answers: int) -> Batch:
    """Rows of `context` tokens, each filled with examples of its own; an example that is cut off has no answers.

    `size` (rows, n) is how many tokens each example has, together at least `context`. `examples` holds the n examples
    of the first row, then those of the next. No row has more than `answers` answers.
    """
    rows, n = size.shape
    end = size.cumsum(dim=1)  # (rows, n)
    start = end - size
    column = torch.arange(context, device=size.device).expand(rows, -1).contiguous()
    example = torch.searchsorted(end, column, right=True)  # (rows, context), the number of the example here

    def in_row(x: Tensor) -> Tensor:
        """What the examples have (rows x n, any), side by side: (rows, n x any)."""
        return x.unflatten(0, (rows, n)).flatten(1)

    trained = in_row(examples.trained & (end <= context).flatten()[:, None])
    order = trained.cumsum(dim=1)  # which answer of the row each one is, counted from 1
    each = torch.arange(trained.shape[1], device=size.device).expand(rows, -1)
    at = torch.zeros(rows, answers + 1, dtype=torch.int64, device=size.device)  # the first column is discarded
    at = at.scatter(1, order * trained, each)[:, 1:]  # (rows, answers)
    is_answer = torch.arange(answers, device=size.device) < order[:, -1:]
    begins = start.gather(1, at // examples.answers.shape[1])

    def read(x: Tensor, none: int, offset: Tensor | int = 0) -> Tensor:
        """What the answers have of `x` (rows x n, any), those that are padding `none`: (rows, answers)."""
        value = in_row(x.expand_as(examples.answers)).gather(1, at)
        return (value + offset).where((value >= 0) & is_answer, none)

    asked = examples.query.unflatten(0, (rows, n))
    return Batch(
        tokens=in_row(examples.tokens).gather(
            1, example * examples.tokens.shape[1] + column - start.gather(1, example)
        ),
        positions=read(examples.positions, 0, begins),
        answers=read(examples.answers, 0),
        query=(asked + start[..., None]).where((asked >= 0) & (end <= context)[..., None], -1).flatten(1),
        source=read(examples.source, -1, begins),
        trained=is_answer,
        scored=in_row(examples.scored).gather(1, at) & is_answer,
        tags={name: read(tag, -1) for name, tag in examples.tags.items()},
    )
