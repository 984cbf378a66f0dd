"""Asks a model questions and counts the right answers.

One pass scores a row: fed the right answer, a model whose likeliest token is right at every position would have decoded just
that answer greedily, and one that errs somewhere would have erred there or before. So the share of exact rows is that of
greedy decoding. The share of single tokens is not: after an error, greedy decoding goes on from its own mistake.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd
import torch
from torch import Tensor

from recollect.analysis.intervals import wilson
from recollect.evaluation.asked import GROUPS, QUESTIONS
from recollect.evaluation.forms import FORMS, as_text, as_tokens
from recollect.evaluation.models import Exported, LanguageModel
from recollect.spec import SpecError, nearest
from recollect.tasks.base import Batch, Task

OWN = "own"
"""The task that an exported model was trained on."""
_TOKENS = 2**14
"""Tokens of one pass."""


@dataclass(frozen=True)
class Evaluation:
    """The accuracy of a model, by task and length, and by position."""

    accuracy: pd.DataFrame
    """One row per task and length: `accuracy` is the share of right answer tokens, averaged over the rows (of an exported model's
    own task, the measure that the store calls its accuracy), from `low` to `high` its 95 % interval, `exact_rows` the share of
    rows whose every answer token is right, `tokens` the longest row."""
    positions: pd.DataFrame
    """One row per task, length, tag and value of the tag: how many answer tokens there were, and how many were right."""


def evaluate(
    model: LanguageModel,
    tasks: Sequence[str] = (),
    lengths: Sequence[int] = (),
    shots: int = 2,
    rows: int = 128,
    seed: int = 0,
    form: str = "",
    watch: Callable[[str, int], None] = lambda *_: None,
) -> Evaluation:
    """Ask a model tasks at lengths. Left out: its own task where it has one, else all; 16 and 64; text where it has a
    tokenizer. `needle` means all needle tasks."""
    if not isinstance(model, LanguageModel):
        opened = "open_exported(folder) or open_hf(folder) of recollect.evaluation"
        raise SpecError(f"expected a LanguageModel, as {opened} gives it, got {model!r}")
    own = isinstance(model, Exported)
    tasks = [name for task in tasks for name in GROUPS.get(task, [task])] or ([OWN] if own else list(QUESTIONS))
    for task in tasks:
        if task not in QUESTIONS and not (own and task == OWN):
            raise SpecError(f"task {task!r}: {nearest(task, [*QUESTIONS, *GROUPS, *([OWN] if own else [])])}")
    if shots < 0 or rows < 1 or any(length < 1 for length in lengths):
        raise SpecError(f"shots {shots}, rows {rows}, lengths {list(lengths)}: expected at least 0, 1 and 1")
    form = form or ("text" if model.tokenizer else "tokens")
    if form not in FORMS:
        raise SpecError(f"form {form!r}: {nearest(form, FORMS)}")
    if form == "text" and model.tokenizer is None:
        raise SpecError(f"{model.name} has no tokenizer, so it cannot be asked in text; choose --form tokens")
    accuracies, positions = [], []
    for task in tasks:
        for length in lengths or ([0] if task == OWN else [16, 64]):
            watch(task, length)
            if task == OWN:
                assert isinstance(model, Exported)
                asked = own_task(model.run.task, length)
                batch, written, given = asked.batch(seed, "evaluate", rows), "tokens", 0
                headline = asked.accuracy
            else:
                given, headline = shots if QUESTIONS[task].solved_examples else 0, "answers"
                question = QUESTIONS[task](length, given)
                write, source = (as_text, model.tokenizer) if form == "text" else (as_tokens, model.usable)
                batch, written = write(task, question, source, model.start, seed, rows), form
            right = score(model, batch)
            about = {"model": model.name, "task": task, "form": written, "length": length, "shots": given}
            accuracies.append(about | _accuracy(batch, right, headline))
            positions += [about | point for point in _by_tag(batch, right)]
    return Evaluation(pd.DataFrame(accuracies), pd.DataFrame(positions))


def own_task(task: Task, length: int) -> Task:
    """The task as it is tested, at another length unless that is 0."""
    if not length:
        return task.for_test()
    if "length" not in type(task).model_fields:
        raise SpecError(f"the model's own task {task.kind} has no length; leave out --length")
    shortest = {"min_length": length} if "min_length" in type(task).model_fields else {}
    return task.changed(length=length, **shortest).for_test()


def score(model: LanguageModel, batch: Batch) -> Tensor:
    """Which answers the model gives right: (rows, answers), bool."""
    rows, length = batch.tokens.shape
    if batch.candidates is not None:
        raise SpecError("a task with several right answers is judged by decoding, which evaluate does not do")
    if model.longest and length > model.longest:
        raise SpecError(f"a row of {length} tokens is longer than {model.name}'s table of {model.longest} positions")
    n = max(1, _TOKENS // length)
    predicted = [
        model.predict(batch.tokens[i : i + n].to(model.device), batch.positions[i : i + n].to(model.device)).cpu()
        for i in range(0, rows, n)
    ]
    return (torch.cat(predicted) == batch.answers) & batch.scored


def _accuracy(batch: Batch, right: Tensor, headline: str) -> dict[str, float]:
    """The numbers of one task and length. The interval counts a row as one observation: its answers are not independent."""
    rows, exact = len(right), (right | ~batch.scored).all(1).float().mean().item()
    accuracy = exact if headline == "rows" else (right.sum(1) / batch.scored.sum(1)).mean().item()
    low, high = wilson(accuracy * rows, rows)
    return {"rows": rows, "tokens": batch.tokens.shape[1], "accuracy": accuracy, "low": low, "high": high,
            "exact_rows": exact}  # fmt: skip


def _by_tag(batch: Batch, right: Tensor) -> list[dict]:
    points = []
    for tag, values in batch.tags.items():
        values = values.expand_as(right)
        for value in values[batch.scored & (values >= 0)].unique().tolist():
            here = batch.scored & (values == value)
            count, hits = int(here.sum()), int((right & here).sum())
            points.append({"tag": tag, "value": value, "count": count, "right": hits, "accuracy": hits / count})
    return points
