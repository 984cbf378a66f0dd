"""What holds for every task: a row can be solved by reading it, and depends on nothing but its seed and number.

Each solver below reads the tokens of a row and nothing else, and gives the answers by position. That the solvers agree
with the batches says at once that labels stand at the right places, that every question has an answer in its context,
and that it has only one.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect import rng
from recollect.tasks import TASKS, Batch, Task, as_task

EXAMPLES: list[dict] = [
    {"kind": "mqar"},
    {"kind": "mqar", "length": 256, "pairs": 64},
    {"kind": "mqar", "filler": "blank"},
    {"kind": "mqar", "roles": "shared", "vocab": 66},
    {"kind": "mqar", "variant": "zoology", "filler": "blank"},
    {"kind": "ar"},
    {"kind": "ar", "roles": "shared", "pairs": 24},
    {"kind": "copy"},
    {"kind": "copy", "min_length": 20},
    {"kind": "copy", "packed": True},
    {"kind": "copy", "packed": True, "min_length": 1, "length": 3, "context": 40},
    {"kind": "ngram"},
    {"kind": "ngram", "query": "prefix"},
    {"kind": "ngram", "n": 1, "k": 1, "symbols": 40},
    {"kind": "ngram", "variant": "jelassi"},
    {"kind": "ngram", "variant": "jelassi", "query": "prefix"},
    {"kind": "duplicates"},
    {"kind": "duplicates", "segments": 3, "query": "prefix"},
    {"kind": "duplicates", "segments": 10},
    {"kind": "position"},
    {"kind": "position", "query": "prefix", "length": 300},
    {"kind": "position", "variant": "sampled"},
    {"kind": "position", "variant": "sampled", "query": "prefix"},
    {"kind": "induction"},
    {"kind": "induction", "length": 3},
    {"kind": "selective_copy"},
    {"kind": "selective_copy", "length": 300, "items": 300},
    {"kind": "noisy"},
    {"kind": "noisy", "length": 24, "pairs": 8},
    {"kind": "fuzzy"},
    {"kind": "fuzzy", "key_length": 1, "value_length": 1},
    {"kind": "fuzzy", "vocab": 10, "pairs": 4, "key_length": 4},
    {"kind": "compositional"},
    {"kind": "compositional", "pairs": 16},
    {"kind": "updating"},
    {"kind": "updating", "updates": 0},
    {"kind": "updating", "updates": 20, "roles": "shared", "vocab": 66},
    {"kind": "mixture", "parts": ["mqar", {"kind": "mqar", "length": 128, "pairs": 8}, {"kind": "updating"}]},
    {"kind": "mixture", "parts": ["copy", {"kind": "ngram", "variant": "jelassi"}]},
]


def name(example: dict) -> str:
    return ",".join(f"{k}={v}" if k != "kind" else v for k, v in example.items() if k != "parts")


every = pytest.mark.parametrize("task", [as_task(example) for example in EXAMPLES], ids=map(name, EXAMPLES))
Solution = dict[int, int]


def bindings(row: list[int], pairs: int) -> Solution:
    """Which value the context binds to each key, later writes over earlier ones."""
    return {row[i]: row[i + 1] for i in range(0, 2 * pairs, 2)}


def solve_mqar(task, row: list[int]) -> Solution:
    writes = task.pairs + getattr(task, "updates", 0)
    value = bindings(row, writes)
    assert len(value) == task.pairs  # the keys are distinct
    assert len(set(row[1 : 2 * writes : 2])) == writes  # so are the values
    return {i: value[row[i]] for i in range(2 * writes, len(row)) if row[i] in value}


def solve_ar(task, row: list[int]) -> Solution:
    value = bindings(row, task.pairs)
    assert len(value) == task.pairs
    return {len(row) - 1: value[row[-1]]}


def solve_copy(task, row: list[int]) -> Solution:
    text = "".join(task.word(token) for token in row)
    text = text if task.packed else text.rstrip("*") + "."
    solution, start = {}, 0
    while "|" in text[start:] and text[start] == "$":
        bar = text.index("|", start)
        string = text[start + 1 : bar]
        assert task.min_length <= len(string) <= task.length
        end = bar + len(string) + 2
        if end > len(text):
            break
        assert text[bar + 1 : end] == string + "."
        solution |= {bar + i: "*$|.abcdefghijklmnopqrstuvwxyz".index(c) for i, c in enumerate(string + ".")}
        start = end
        if start == len(text):
            break
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


def solve_jelassi(task, row: list[int]) -> Solution:
    start, bar, stop, n = 1, 2, 3, task.n
    end = row.index(bar) if task.query == "suffix" else row.index(bar, n + 2)
    assert row[0] == start
    if task.query == "suffix":
        sequence, query, at = row[1:end], row[end + 1 : end + 1 + n], end + n
    else:
        assert row[n + 1] == bar
        sequence, query, at = row[n + 2 : end], row[1 : n + 1], end
    answer = row[at + 1 : at + 1 + task.k]
    assert answer in followers(sequence, query, task.k)  # the query may occur again: then the row says which is meant
    return {at + i: token for i, token in enumerate([*answer, stop])}


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
    if task.variant == "permutation":
        assert len(set(sequence)) == L
    answer = task.vocabulary - L + sequence.index(asked)
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


def labels(batch: Batch, row: int) -> Solution:
    """The trained answers of a row by position."""
    kept = batch.trained[row]
    return dict(zip(batch.positions[row][kept].tolist(), batch.answers[row][kept].tolist(), strict=True))


def check_solved(task, batch: Batch, rows: int) -> None:
    for row in range(rows):
        part = task.parts[row % len(task.parts)] if task.kind == "mixture" else task
        tokens = batch.tokens[row, : part.row_length].tolist()
        assert SOLVERS[part.kind](part, tokens) == labels(batch, row)
        assert not batch.tokens[row, part.row_length :].any()  # padding


@every
def test_a_reader_of_the_tokens_alone_finds_every_answer(task):
    check_solved(task, task.batch(7, "train", 60), 60)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_the_same_at_any_size(data):
    pairs = data.draw(st.integers(1, 8))
    length = data.draw(st.integers(20, 40))
    seed = data.draw(st.integers(0, 2**62))
    where = data.draw(st.sampled_from(["suffix", "prefix"]))
    n, k = data.draw(st.integers(2, 3)), data.draw(st.integers(1, 4))
    size = data.draw(st.integers(1, 3))
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
                {"kind": "duplicates", "n": n, "k": 3, "segments": 2, "length": length, "query": where},
                {"kind": "position", "length": length, "query": where},
                {"kind": "position", "length": length, "variant": "sampled", "symbols": pairs + 1},
                {"kind": "induction", "length": length, "symbols": pairs + 1},
                {"kind": "selective_copy", "length": length, "items": pairs},
                {"kind": "noisy", "length": length + 4, "pairs": pairs},
                {"kind": "fuzzy", "pairs": pairs, "key_length": size, "value_length": n},
                {"kind": "compositional", "pairs": pairs, "parts": 3},
            ]
        )
    )
    task = as_task(example)
    check_solved(task, task.batch(seed, "train", 8), 8)


@every
def test_batches_are_what_they_say(task):
    rows = 300
    batch = task.batch(1, "test", rows)
    assert batch.tokens.shape == (rows, task.row_length)
    assert batch.tokens.dtype == batch.positions.dtype == batch.answers.dtype == torch.int64
    for tokens in (batch.tokens, batch.answers):
        assert tokens.min() >= 0
        assert tokens.max() < task.vocabulary
    assert batch.positions.shape == batch.answers.shape == batch.source.shape == batch.trained.shape
    assert batch.trained.any(dim=1).all()
    assert not (batch.scored & ~batch.trained).any()
    assert batch.positions.min() >= 0
    assert batch.positions.max() < task.row_length
    in_order = (batch.positions[:, 1:] > batch.positions[:, :-1]) | ~batch.trained[:, 1:] | ~batch.trained[:, :-1]
    assert in_order.all()
    stands = batch.source >= 0
    assert torch.equal(batch.tokens.gather(1, batch.source.clamp(min=0))[stands], batch.answers[stands])
    assert (batch.source <= batch.positions)[stands].all()  # an answer stands before it is read
    assert batch.query.max() < task.row_length
    for tag in batch.tags.values():
        assert tag.dtype == torch.int64
        assert tag.shape in {(rows, 1), tuple(batch.answers.shape)}
    for token in range(min(task.vocabulary, 500)):
        assert task.word(token)
    assert 0 < task.chance <= 1


def same(a: Batch, b: Batch) -> bool:
    pairs = [(getattr(a, f), getattr(b, f)) for f in ("tokens", "positions", "answers", "query", "source", "trained")]
    pairs += [(a.scored, b.scored), *((a.tags[name], b.tags[name]) for name in a.tags)]
    if a.candidates is not None:
        pairs.append((a.candidates, b.candidates))
    return a.tags.keys() == b.tags.keys() and all(torch.equal(x, y) for x, y in pairs)


@every
def test_a_row_does_not_depend_on_its_company(task):
    rows = torch.tensor([5, 3, 900_000_000_000, 0, 4, 77, 1, 2])
    together = task.sample(rng.stream(42, "train", rows))
    turned = task.sample(rng.stream(42, "train", rows.flip(0)))
    assert same(together, turned.map(lambda x: x.flip(0)))
    for i, row in enumerate(rows):
        alone = task.sample(rng.stream(42, "train", row[None]))
        assert same(alone, together.map(lambda x, i=i: x[i : i + 1]))


@every
def test_members_with_their_own_seeds_are_drawn_in_one_call(task):
    seeds, rows = torch.tensor([1, 1, 2, 2]), torch.tensor([0, 1, 0, 1])
    together = task.sample(rng.stream(seeds, "train", rows))
    assert same(task.batch(1, "train", 2), together.map(lambda x: x[:2]))
    assert same(task.batch(2, "train", 2), together.map(lambda x: x[2:]))


@every
def test_seeds_purposes_and_rows_differ(task):
    train, test, other = task.batch(1, "train", 20), task.batch(1, "test", 20), task.batch(2, "train", 20)
    content = {tuple(row) for batch in (train, test, other) for row in batch.tokens.tolist()}
    assert len(content) == 60 or task.row_length == 3  # the shortest task has fewer rows than that


@every
def test_pytorchs_own_generator_is_left_alone(task):
    before = torch.get_rng_state()
    task.batch(3, "train", 5)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@every
def test_a_gpu_draws_the_same_rows(task):
    there = task.batch(42, "train", 500, device="cuda")
    assert there.tokens.is_cuda
    assert same(task.batch(42, "train", 500), there.map(torch.Tensor.cpu))


@every
def test_a_specification_survives_being_written_down(task: Task):
    assert as_task(task.canonical()) == task
    assert as_task(task.model_dump(mode="json")) == task
    assert next(iter(task.canonical())) == "kind"


@every
def test_every_field_is_documented(task):
    for field_name, field in type(task).model_fields.items():
        assert field.description or field_name == "kind"


def test_every_kind_has_an_example_and_no_more():
    assert {example["kind"] for example in EXAMPLES} == set(TASKS)
