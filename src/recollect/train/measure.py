"""Loss and accuracy at answer positions.

Where several answers are correct (a batch with candidates), a model is judged by what it decodes greedily: it is right if that is
one of them, and slices with the tag `chosen.s` count which of the s it was; the value s means none.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from recollect.ops.answer_loss import cross_entropy
from recollect.tasks.base import Batch, Task
from recollect.train.data import sample
from recollect.train.device import sum_dtype

_LOGITS = 2**22
"""How many logits of one member a pass over rows may hold on a CPU, where it must not depend on how many members there are."""
_GPU_LOGITS, _GPU_TOKENS, _GPU_ROWS = 2**28, 2**20, 1024
"""How many logits, tokens and rows, those of all members together, a pass may hold on a GPU, which needs large passes."""
_HELD = 2**22
"""How many tokens of evaluation rows are held in memory, so that they are drawn once and not for each measurement."""


@dataclass
class Measures:
    """The result of a measurement, per member: each (members,)."""

    loss: Tensor
    """Mean cross-entropy, in nats."""
    answers: Tensor
    """Share of answers that are right, averaged over rows."""
    rows: Tensor
    """Share of rows whose every scored answer is right."""
    slices: dict[str, Tensor]
    """By tag: how many were scored and how many were right at each value of the tag, (2, members, values)."""

    def of_first(self, members: int) -> "Measures":
        """The same for so many of the members."""
        slices = {tag: counts[:, :members] for tag, counts in self.slices.items()}
        return Measures(self.loss[:members], self.answers[:members], self.rows[:members], slices)

    def accuracy(self, task: Task) -> Tensor:
        """The headline accuracy of the task."""
        return self.answers if task.accuracy == "answers" else self.rows


Forward = Callable[[Tensor, Tensor], Tensor]
"""Tokens (members, rows, length) and positions (members, rows, answers) to logits (members, rows, answers, vocabulary)."""


class EvaluationRows:
    """The first rows that each seed has for a purpose: drawn once where they are few, else each time they are measured."""

    def __init__(self, task: Task, seeds: Tensor, purpose: str, rows: int):
        self.task, self.seeds, self.purpose, self.rows = task, seeds, purpose, rows
        self.answers = task.row_answers
        few = len(seeds) * rows * task.row_length <= _HELD
        self.drawn = self._draw(0, rows) if few else None

    def passes(self, member_seed: Tensor) -> Iterator[Batch]:
        """The rows of each member, whose seed is `seeds[member_seed]`, in passes: each tensor (members, rows of the pass, ..)."""
        n = self._rows_per_pass(len(member_seed))
        for start in range(0, self.rows, n):
            stop = min(start + n, self.rows)
            batch = self.drawn.map(lambda x: x[:, start:stop]) if self.drawn else self._draw(start, stop)  # noqa: B023
            yield batch.map(lambda x: x[member_seed])

    def _draw(self, start: int, stop: int) -> Batch:
        numbers = torch.arange(start, stop, device=self.seeds.device).expand(len(self.seeds), -1)
        return sample(self.task, self.seeds, self.purpose, numbers)

    def _rows_per_pass(self, members: int) -> int:
        logits = self.answers * self.task.vocabulary
        if not self.seeds.is_cuda:
            return max(16, min(256, _LOGITS // logits))
        tokens = members * self.task.row_length
        return max(16, min(_GPU_ROWS, _GPU_LOGITS // (members * logits), _GPU_TOKENS // tokens))


@torch.no_grad()
def measure(forward: Forward, rows: EvaluationRows, member_seed: Tensor, sliced: bool) -> Measures:
    """Loss and accuracy of each member on the rows of its seed, `rows.seeds[member_seed]`."""
    task = rows.task
    dtype = sum_dtype(member_seed.device)
    loss = count = answers = whole = torch.zeros(len(member_seed), dtype=dtype, device=member_seed.device)
    slices: dict[str, Tensor] = {}
    for batch in rows.passes(member_seed):
        logits = forward(batch.tokens, batch.positions)
        predicted = logits.argmax(-1)  # (members, rows, answers)
        if batch.candidates is None:
            right = (predicted == batch.answers) & batch.scored
        else:
            right, chosen = _nearest(_decoded(forward, batch, predicted), batch.candidates)
            batch.tags = {**batch.tags, f"chosen.{batch.candidates.shape[2]}": chosen[..., None]}
        losses = cross_entropy(logits, batch.answers).to(dtype) * batch.trained
        loss, count = loss + losses.sum((1, 2)), count + batch.trained.sum((1, 2))
        answers = answers + (right.sum(-1) / batch.scored.sum(-1)).to(dtype).sum(1)
        whole = whole + (right | ~batch.scored).all(-1).sum(1)
        if sliced:
            _add_slices(slices, task, batch, right)
    return Measures(loss / count, answers / rows.rows, whole / rows.rows, slices)


def _decoded(forward: Forward, batch: Batch, predicted: Tensor) -> Tensor:
    """What each model decodes greedily, fed its own answers: (members, rows, answers). The first of `predicted` is decoded
    already."""
    tokens, answers = batch.tokens, [predicted[..., :1]]
    for i in range(1, predicted.shape[-1]):
        tokens = tokens.scatter(-1, batch.positions[..., i : i + 1], answers[-1])
        answers.append(forward(tokens, batch.positions).argmax(-1)[..., i : i + 1])
    return torch.cat(answers, dim=-1)


def _nearest(predicted: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
    """Which tokens match the candidate that most of them match (members, rows, answers), and its number, or their count
    where it does not match in full (members, rows)."""
    match = predicted[:, :, None] == candidates  # (members, rows, candidates, answers)
    best = match.sum(-1).argmax(-1)
    right = match.gather(2, best[..., None, None].expand(-1, -1, 1, match.shape[-1]))[:, :, 0]
    return right, torch.where(right.all(-1), best, candidates.shape[2])


def _add_slices(slices: dict[str, Tensor], task: Task, batch: Batch, right: Tensor) -> None:
    for name, tag in batch.tags.items():
        if task.accuracy == "rows":  # a row is right or wrong as a whole, and its first tag counts
            value, hit = tag[..., 0], (right | ~batch.scored).all(-1)
            scored = torch.ones_like(hit)
        else:
            value, hit, scored = tag.expand_as(right), right, batch.scored
        parts = [*slices.get(name, ()), _counts(value, scored), _counts(value, hit)]
        width = max(x.shape[1] for x in parts)
        sums = torch.stack([torch.nn.functional.pad(x, (0, width - x.shape[1])) for x in parts])
        slices[name] = sums.unflatten(0, (-1, 2)).sum(0)


def _counts(value: Tensor, weight: Tensor) -> Tensor:
    """The weight of each value, per member: (members, values). Entries without a value (-1) are left out."""
    members, values = len(value), max(int(value.max()) + 1, 1)
    offset = torch.arange(members, device=value.device).view(-1, *(1,) * (value.dim() - 1)) * values
    weights = (weight & (value >= 0)).flatten().to(sum_dtype(value.device))
    counts = torch.bincount((value.clamp(min=0) + offset).flatten(), weights=weights, minlength=members * values)
    return counts.view(members, values).long()
