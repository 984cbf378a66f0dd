"""Questions as rows of tokens: through a tokenizer as text, or directly as random tokens of a vocabulary."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch.nn.utils.rnn import pad_sequence

from recollect import rng
from recollect.evaluation.lexicon import LEXICON
from recollect.evaluation.questions import Draw, Item, Question
from recollect.spec import SpecError
from recollect.tasks.base import Batch

FORMS = ("text", "tokens")
T = TypeVar("T")


def as_tokens(name: str, question: Question, usable: Sequence[int], start: list[int], seed: int, rows: int) -> Batch:
    """Rows in which every word and mark is one token, drawn for each row from the `usable` ones."""
    marks = len(set(question.tokens.values()))
    first, needed = {}, marks
    for kind, count in question.needs().items():
        first[kind], needed = needed, needed + count
    if needed > len(usable):
        raise SpecError(
            f"{name} at length {question.length} with {question.shots} shots needs {needed} different tokens, and the "
            f"model's vocabulary has {len(usable)} besides special ones; choose a smaller --length or --shots"
        )
    draw = _streams(name, seed, rows)
    drawn = torch.tensor(usable)[draw("words").bijection(len(usable))(torch.arange(needed))].tolist()

    def written(row: int, items: list[Item]) -> list[int]:
        marks = question.tokens
        numbers = (marks.get(item, -1) if isinstance(item, str) else first[item[0]] + item[1] for item in items)
        return [drawn[row][number] for number in numbers if number >= 0]

    return _batch(_written(question, draw, written), start)


def as_text(name: str, question: Question, tokenizer: Any, start: list[int], seed: int, rows: int) -> Batch:
    """Rows of text, encoded as a whole; an answer's tokens are those between its prompt's and what follows."""
    encoded = []
    for row in texts(name, question, seed, rows):
        whole = _encode(tokenizer, "".join(prompt + answer for prompt, answer, _ in row))
        text, end, parts = "", 0, []
        for number, (prompt, answer, tenth) in enumerate(row, 1):
            text, before = text + prompt, end
            # a tokenizer may join the end of one part and the beginning of the next
            begin = _shared(_encode(tokenizer, text), whole)
            text += answer
            end = len(whole) if number == len(row) else _shared(_encode(tokenizer, text), whole)
            if tokenizer.unk_token_id is not None and tokenizer.unk_token_id in whole[begin:end]:
                raise SpecError(f"{name}: the tokenizer has no token for a part of {answer!r}; choose --form tokens")
            if end <= begin or not (start or begin):
                raise SpecError(
                    f"{name}: the tokenizer makes no tokens of {prompt[-20:]!r} or {answer!r}; choose --form tokens"
                )
            parts.append((whole[before:begin], whole[begin:end], tenth))
        encoded.append(parts)
    return _batch(encoded, start)


def _encode(tokenizer: Any, text: str) -> list[int]:
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def _shared(head: list[int], whole: list[int]) -> int:
    """The length of the longest common prefix of two rows."""
    return next((i for i, (a, b) in enumerate(zip(head, whole, strict=False)) if a != b), min(len(head), len(whole)))


def texts(name: str, question: Question, seed: int, rows: int) -> list[list[tuple[str, str, int]]]:
    """The rows of a question; each part is a prompt, an answer, and the tenth of the context that has the answer."""
    draw = _streams(name, seed, rows)
    words: dict[str, list[list[int]]] = {}
    for kind, count in question.needs().items():
        known = LEXICON[kind]
        if count > len(known):
            raise SpecError(
                f"{name} at length {question.length} with {question.shots} shots needs {count} different words of the kind "
                f"{kind!r}, and there are {len(known)}; choose a smaller --length or --shots"
            )
        words[kind] = draw(f"words/{kind}").bijection(len(known))(torch.arange(count)).tolist()

    def word(row: int, kind: str, number: int) -> str:
        return str(LEXICON[kind][words[kind][row][number]])

    def written(row: int, items: list[Item]) -> str:
        marks = question.text
        return "".join(marks.get(item, "") if isinstance(item, str) else word(row, *item) for item in items)

    return _written(question, draw, written)


def _written(question: Question, draw: Draw, write: Callable[[int, list[Item]], T]) -> list[list[tuple[T, T, int]]]:
    """The rows of a question, where `write` gives what items are in the row of a number."""
    rows = enumerate(question.rows(draw))
    return [[(write(i, part.prompt), write(i, part.answer), part.tenth) for part in row] for i, row in rows]


def _streams(name: str, seed: int, rows: int) -> Draw:
    return lambda purpose: rng.stream(seed, f"evaluate/{name}/{purpose}", torch.arange(rows))


Parts = list[tuple[list[int], list[int], int]]
"""A row: the prompt, the answer and the tenth of each part."""


def _batch(rows: list[Parts], start: list[int]) -> Batch:
    """Rows as one batch, padded on the right, which a causal model does not see. An answer is read one token before it."""
    fed, columns = [], []
    for parts in rows:
        tokens, read = list(start), []
        for prompt, answer, tenth in parts:
            tokens += prompt
            read += [(len(tokens) - 1 + i, token, tenth) for i, token in enumerate(answer)]
            tokens += answer
        fed.append(torch.tensor(tokens[:-1]))  # nothing is read at the last token
        columns.append(torch.tensor(read))  # (answers, 3)
    is_answer = pad_sequence([torch.ones(len(read), dtype=torch.bool) for read in columns], batch_first=True)
    positions, answers, tenth = pad_sequence(columns, batch_first=True).unbind(-1)
    number = torch.arange(is_answer.shape[1]).expand_as(is_answer)
    tags = {"token": number.where(is_answer, -1), "tenth": tenth.where(is_answer, -1)}
    nowhere = torch.full((len(rows), 1), -1)
    return Batch(pad_sequence(fed, batch_first=True), positions, answers, query=nowhere, trained=is_answer, tags=tags)
