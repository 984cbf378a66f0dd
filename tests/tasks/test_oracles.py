"""Oracles: each reads the tokens of a row and nothing else, and solves it as the words of the task's source say.

That they agree with the batches says at once that labels stand at the right places, that every question has an answer in
its context, and that it has only one: the best possible accuracy is 1.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.tasks import TASKS, Batch, Task, as_task

Solution = dict[int, int]
"""The answer by the position it is read at."""


def bindings(row: list[int], pairs: int) -> Solution:
    """Which value the context binds to each key, later writes over earlier ones."""
    return {row[i]: row[i + 1] for i in range(0, 2 * pairs, 2)}


def solve_mqar(task, row: list[int]) -> Solution:
    writes = task.pairs + getattr(task, "updates", 0)
    value = bindings(row, writes)
    assert len(value) == task.pairs  # the keys are distinct
    if task.variant == "clean":
        assert len(set(row[1 : 2 * writes : 2])) == writes  # so are the values
    return {i: value[row[i]] for i in range(2 * writes, len(row)) if row[i] in value}


def solve_ar(task, row: list[int]) -> Solution:
    value = bindings(row, task.pairs)
    assert len(value) == task.pairs
    return {len(row) - 1: value[row[-1]]}


LETTERS = "*$|.abcdefghijklmnopqrstuvwxyz"


def split(task, row: list[int]) -> list[tuple[int, str]]:
    """The examples of a row as text, each with where it starts; the last one, where it is cut off, is left out.

    In a row of one example the full stop at the end is not fed, and padding follows.
    """
    text = "".join(task.word(token) for token in row)
    if not task.packed:
        return [(0, text.rstrip("*") + ".")]
    starts = [i for i, letter in enumerate(text) if letter == "$"]
    found = [(start, text[start:end]) for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    return [(start, part) for start, part in found if part.endswith(".")]


def read(at: int, answer: str) -> Solution:
    """An answer's letters and full stop, each read one token before it stands."""
    return {at + i: LETTERS.index(letter) for i, letter in enumerate(answer + ".")}


def solve_copy(task, row: list[int]) -> Solution:
    solution = {}
    for start, text in split(task, row):
        string, copy = text[1:-1].split("|")
        assert text[0] == "$"
        assert string == copy
        assert task.min_length <= len(string) <= task.length
        solution |= read(start + len(string) + 1, string)
    return solution


def solve_jelassi(task, row: list[int]) -> Solution:
    """`$x|ng ans.` or `$ng|x|ans.`: the answer is what follows the first occurrence of the n-gram."""
    solution = {}
    for start, text in split(task, row):
        parts = text[1:].split("|")
        if task.query == "suffix":
            string, query = parts[0], parts[1][: task.n]
            at = 1 + len(string) + task.n
        else:
            query, string = parts[0], parts[1]
            at = 2 + task.n + len(string)
        assert len(query) == task.n
        assert task.min_length <= len(string) <= task.length
        first = string.index(query) + task.n
        solution |= read(start + at, string[first : first + task.k])
    return solution


def followers(sequence: list[int], query: list[int], k: int) -> list[list[int]]:
    """The k-grams that follow the query in the sequence."""
    n = len(query)
    return [sequence[i + n : i + n + k] for i in range(len(sequence) - n + 1) if sequence[i : i + n] == query]


def parse_ngram(task, row: list[int]) -> tuple[list[int], list[int], int]:
    """The sequence, the query, and where the first answer is read."""
    bos, query, n = 1, 2, task.n
    if task.query == "suffix":
        end = row.index(bos, 1)
        assert (row[0], row[end + 1], row[end + 2 + n]) == (bos, query, query)
        return row[1:end], row[end + 2 : end + 2 + n], end + 2 + n
    end = row.index(bos, n + 2)
    assert (row[0], row[n + 1], row[end + 1]) == (query, bos, query)
    return row[n + 2 : end], row[1 : n + 1], end + 1


def solve_ngram(task, row: list[int]) -> Solution:
    if task.variant == "jelassi":
        return solve_jelassi(task, row)
    sequence, query, at = parse_ngram(task, row)
    assert task.min_length <= len(sequence) <= task.length
    (answer,) = followers(sequence, query, task.k)
    assert row[at + 1 : at + task.k] == answer[:-1]
    return {at + i: token for i, token in enumerate(answer)}


def solve_duplicates(task, row: list[int]) -> Solution:
    sequence, query, at = parse_ngram(task, row)
    assert len(sequence) == task.segments * (task.length // task.segments)
    answers = followers(sequence, query, task.k)
    assert len(answers) == task.segments == len({tuple(a) for a in answers})
    return {at + i: token for i, token in enumerate(answers[-1])}


def solve_position(task, row: list[int]) -> Solution:
    bos, query, L = 1, 2, task.length
    sequence, asked = (row[1 : L + 1], row[L + 2]) if task.query == "suffix" else (row[3 : L + 3], row[1])
    assert (row[0], row[L + 1]) == (bos, query) if task.query == "suffix" else (row[0], row[2]) == (query, bos)
    assert sequence.count(asked) == 1
    assert max(sequence) < 3 + L
    if task.variant == "permutation":
        assert len(set(sequence)) == L
    answer = 3 + L + sequence.index(asked)  # 3 specials, L symbols, L positions
    assert row[L + 3] == answer
    return {L + 2: answer, L + 3: bos}


def solve_induction(task, row: list[int]) -> Solution:
    assert row.count(1) == 2
    return {len(row) - 1: row[row.index(1) + 1]}


def solve_selective_copy(task, row: list[int]) -> Solution:
    symbols = [token for token in row[: task.length] if token]
    assert row[task.length :] == [1] * len(symbols)
    return {task.length + i: symbol for i, symbol in enumerate(symbols)}


def solve_noisy(task, row: list[int]) -> Solution:
    heard = [token for token in row if token < task.vocab]
    value = bindings(heard, task.pairs)
    assert len(heard) == 3 * task.pairs
    assert sorted(heard[2 * task.pairs :]) == sorted(value)
    return {i: value[row[i]] for i in range(len(row) - task.pairs, len(row))}


def solve_fuzzy(task, row: list[int]) -> Solution:
    half, solution, value = task.vocab // 2, {}, {}
    row = [*row, *[0]]
    spans, i = [], 0
    while row[i]:  # keys and values take turns
        j = i
        while 0 < row[j] < half:
            j += 1
        end = j
        while row[end] >= half:
            end += 1
        spans.append((i, j, end))
        i = end
    assert len(spans) == 2 * task.pairs
    for start, middle, end in spans[: task.pairs]:
        value[tuple(row[start:middle])] = row[middle:end]
    assert len(value) == task.pairs
    for start, middle, _ in spans[task.pairs :]:
        answer = value.pop(tuple(row[start:middle]))  # every key is asked once
        solution |= {middle - 1 + i: token for i, token in enumerate(answer)}
    return solution


def solve_compositional(task, row: list[int]) -> Solution:
    K = task.pairs
    value = {(row[i], row[i + 1]): row[i + 2] for i in range(0, 3 * K, 3)}
    assert len(value) == K
    for part in (row[0 : 3 * K : 3], row[1 : 3 * K : 3]):  # no part tells the value on its own
        assert all(part.count(token) > 1 for token in set(part))
    return {i + 1: value.pop((row[i], row[i + 1])) for i in range(3 * K, 5 * K, 2)}


SOLVERS = {
    "mqar": solve_mqar,
    "ar": solve_ar,
    "copy": solve_copy,
    "ngram": solve_ngram,
    "duplicates": solve_duplicates,
    "position": solve_position,
    "induction": solve_induction,
    "selective_copy": solve_selective_copy,
    "noisy": solve_noisy,
    "fuzzy": solve_fuzzy,
    "compositional": solve_compositional,
    "updating": solve_mqar,
}


def wrong(task, batch: Batch) -> list[int]:
    """The rows whose trained answers are not what an oracle finds in their tokens."""
    names = ("tokens", "positions", "answers", "trained")
    rows = zip(*(getattr(batch, name).tolist() for name in names), strict=True)
    parts = batch.tags["part"][:, 0].tolist() if task.kind == "mixture" else [None] * len(batch.tokens)
    found = []
    for number, (part, (tokens, positions, answers, trained)) in enumerate(zip(parts, rows, strict=True)):
        one = task if part is None else task.parts[part]
        labels = {at: answer for at, answer, kept in zip(positions, answers, trained, strict=True) if kept}
        solution = SOLVERS[one.kind](one, tokens[: one.row_length])
        if solution != labels or any(tokens[one.row_length :]):  # the rest is padding
            found.append(number)
    return found


def unambiguous(task: Task) -> None:
    """Skip the variants that follow a released generator whose rows can have two answers, or filler that looks asked."""
    zoology = getattr(task, "variant", "") == "zoology" and getattr(task, "filler", "") == "random"
    if zoology or getattr(task, "variant", "") == "released":
        pytest.skip("its rows are ambiguous, as the released generator's are")


def test_an_oracle_solves_every_row(task):
    unambiguous(task)
    assert wrong(task, task.batch(7, "train", 2_000)) == []


@pytest.mark.long
def test_an_oracle_solves_twenty_thousand_rows(task):
    unambiguous(task)
    for number in range(10):
        assert wrong(task, task.batch(100 + number, "train", 1_000)) == []
        tested = task.for_test()
        assert wrong(tested, tested.batch(100 + number, "test", 1_000)) == []


def test_an_oracle_finds_a_planted_fault(task):
    unambiguous(task)
    batch = task.batch(8, "train", 40)
    rows = [3, 17, 31]
    for row in rows:
        answer = batch.trained[row].nonzero()[-1]
        batch.answers[row, answer] = (batch.answers[row, answer] + 1) % task.vocabulary
    assert wrong(task, batch) == rows


def test_every_kind_has_an_oracle_and_an_example(kinds):
    assert {*SOLVERS, "mixture"} == kinds == set(TASKS)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_oracles_solve_rows_of_any_size(data):
    pairs = data.draw(st.integers(1, 8))
    length = data.draw(st.integers(20, 40))
    seed = data.draw(st.integers(0, 2**62))
    where = data.draw(st.sampled_from(["suffix", "prefix"]))
    n, k = data.draw(st.integers(2, 3)), data.draw(st.integers(1, 4))
    size = data.draw(st.integers(1, 3))
    jelassi = {
        "kind": "ngram",
        "variant": "jelassi",
        "n": n,
        "k": k,
        "min_length": 10,
        "length": length,
        "query": where,
    }
    example = data.draw(
        st.sampled_from(
            [
                {"kind": "mqar", "pairs": pairs, "length": 2 * length, "vocab": 2 * length + 2},
                {"kind": "mqar", "pairs": pairs, "length": 2 * length, "roles": "shared"},
                {"kind": "updating", "pairs": pairs, "length": 2 * length, "updates": size},
                {"kind": "ar", "pairs": pairs},
                {"kind": "copy", "min_length": size, "length": pairs + 3, "packed": True, "context": length + 10},
                {"kind": "copy", "min_length": size, "length": pairs + 3},
                {"kind": "ngram", "n": n, "k": k, "min_length": 10, "length": length, "query": where},
                jelassi,
                {**jelassi, "packed": True, "context": 2 * length + 20},
                {"kind": "duplicates", "n": n, "k": 3, "segments": 2, "length": length, "query": where},
                {"kind": "position", "length": length, "query": where},
                {"kind": "position", "length": length, "variant": "sampled", "symbols": pairs + 1},
                {"kind": "induction", "length": length, "symbols": pairs + 1},
                {"kind": "selective_copy", "length": length, "items": pairs},
                {"kind": "noisy", "length": length + 4, "pairs": pairs},
                {"kind": "fuzzy", "pairs": pairs, "key_length": size, "value_length": n},
                {"kind": "compositional", "pairs": 5 + k, "parts": 3},
                {"kind": "compositional", "pairs": 7 + pairs, "parts": 4},
            ]
        )
    )
    task = as_task(example)
    assert wrong(task, task.batch(seed, "train", 8)) == []
