"""Questions as rows of tokens: through a tokenizer as text, or directly as random tokens of a vocabulary."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from recollect import rng
from recollect.evaluation.lexicon import LEXICON
from recollect.evaluation.questions import Item, Question
from recollect.rng import Stream
from recollect.spec import SpecError
from recollect.tasks.base import Batch

FORMS = ("text", "tokens")


def as_tokens(name: str, question: Question, usable: Sequence[int], start: list[int], seed: int, rows: int) -> Batch:
    """Every word and mark of a row is a token of its own, drawn anew for each row from the `usable` ones."""
    marks = len(set(question.tokens.values()))
    place, needed = {}, marks
    for kind, count in question.needs().items():
        place[kind], needed = needed, needed + count
    if needed > len(usable):
        raise SpecError(
            f"{name} at length {question.length} with {question.shots} shots needs {needed} different tokens, and the "
            f"model's vocabulary has {len(usable)} besides special ones; choose a smaller --length or --shots"
        )
    draw = _streams(name, seed, rows)
    drawn = torch.tensor(usable)[draw("words").bijection(len(usable))(torch.arange(needed))].tolist()

    def written(items: list[Item], tokens: list[int]) -> list[int]:
        numbers = (
            question.tokens.get(item, -1) if isinstance(item, str) else place[item[0]] + item[1] for item in items
        )
        return [tokens[number] for number in numbers if number >= 0]

    found = zip(question.rows(draw), drawn, strict=True)
    return _batch(
        [([*start, *written(row.prompt, tokens)], written(row.answer, tokens), row.tenth) for row, tokens in found]
    )


def as_text(name: str, question: Question, tokenizer: Any, start: list[int], seed: int, rows: int) -> Batch:
    """The question in words, encoded whole; the answer's tokens are those after the prompt's."""
    encoded = []
    for prompt, answer, tenth in texts(name, question, seed, rows):
        whole, head = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in (prompt + answer, prompt))
        common = 0  # a tokenizer may join the end of the prompt and the beginning of the answer
        while common < min(len(head), len(whole)) and head[common] == whole[common]:
            common += 1
        if tokenizer.unk_token_id is not None and tokenizer.unk_token_id in whole[common:]:
            raise SpecError(f"{name}: the tokenizer has no token for a part of {answer!r}; choose --form tokens")
        if common == len(whole) or (not start and common == 0):
            raise SpecError(
                f"{name}: the tokenizer makes no tokens of {prompt[-20:]!r} or {answer!r}; choose --form tokens"
            )
        encoded.append(([*start, *whole[:common]], whole[common:], tenth))
    return _batch(encoded)


def texts(name: str, question: Question, seed: int, rows: int) -> list[tuple[str, str, int]]:
    """The rows of a question as prompt, answer, and the tenth of the context that the answer is in."""
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

    def written(items: list[Item], i: int) -> str:
        return "".join(
            question.text.get(item, "") if isinstance(item, str) else LEXICON[item[0]][words[item[0]][i][item[1]]]
            for item in items
        )

    return [(written(row.prompt, i), written(row.answer, i), row.tenth) for i, row in enumerate(question.rows(draw))]


def _streams(name: str, seed: int, rows: int) -> Callable[[str], Stream]:
    return lambda purpose: rng.stream(seed, f"evaluate/{name}/{purpose}", torch.arange(rows))


def _batch(rows: list[tuple[list[int], list[int], int]]) -> Batch:
    """Prompts, answers and tenths as one batch, padded on the right, where a causal model does not look."""
    longest = max(len(prompt) + len(answer) for prompt, answer, _ in rows) - 1  # nothing is read at the last token
    most = max(len(answer) for _, answer, _ in rows)
    tokens = torch.zeros(len(rows), longest, dtype=torch.int64)
    answers, positions = (torch.zeros(len(rows), most, dtype=torch.int64) for _ in range(2))
    for i, (prompt, answer, _) in enumerate(rows):
        fed = torch.tensor(prompt + answer[:-1])
        tokens[i, : len(fed)] = fed
        answers[i, : len(answer)] = torch.tensor(answer)
        positions[i, : len(answer)] = len(prompt) - 1 + torch.arange(len(answer))
    sizes = torch.tensor([len(answer) for _, answer, _ in rows])[:, None]
    number = torch.arange(most).expand(len(rows), -1)
    there = number < sizes  # (rows, answers)
    tenth = torch.tensor([tenth for *_, tenth in rows])[:, None]
    nowhere = torch.full_like(tenth, -1)
    tags = {"token": number.where(there, -1), "tenth": tenth}
    return Batch(tokens, positions, answers, query=nowhere, source=nowhere.expand_as(answers), trained=there, tags=tags)
