"""Oracles: each reads the tokens of a row and nothing else, and solves it as the words of the task's source say.

Agreement with the batches shows that labels are at the right positions, that every question has an answer in
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
    """An answer's letters and full stop, each predicted from the token before it."""
    return {at + i: LETTERS.index(letter) for i, letter in enumerate(answer + ".")}


def solve_copy(task, row: list[int]) -> Solution:
    solution = {}
    for start, text in split(task, row):
        string, copy = text[1:-1].split("|")
        assert text[0] == "$"
        assert copy == (string[::-1] if task.reverse else string)
        assert task.min_length <= len(string) <= task.length
        solution |= read(start + len(string) + 1, copy)
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
    pairs_only = [token for token in row if token < task.vocab]
    value = bindings(pairs_only, task.pairs)
    assert len(pairs_only) == 3 * task.pairs
    assert sorted(pairs_only[2 * task.pairs :]) == sorted(value)
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
    for part in (row[0 : 3 * K : 3], row[1 : 3 * K : 3]):  # no part determines the value on its own
        assert all(part.count(token) > 1 for token in set(part))
    return {i + 1: value.pop((row[i], row[i + 1])) for i in range(3 * K, 5 * K, 2)}


def solve_words(task, row: list[int]) -> Solution:
    """The state is what the letters (or the number) have become so far; the words of the elements are read."""
    solution, cyclic = {}, task.group[0] == "z"
    size = int(task.group[1:])
    number = {task.word(token): token for token in range(1, task.vocabulary)}
    assert len(number) == task.vocabulary - 1
    state: list[int] = [0] if cyclic else list(range(1, size + 1))
    for i, token in enumerate(row):
        word = task.word(token)
        state = [(state[0] + int(word)) % size] if cyclic else [state[int(letter) - 1] for letter in word]
        solution[i] = number["".join(map(str, state))]
    return solution


def solve_parity(task, row: list[int]) -> Solution:
    bits = [token - 1 for token in row if token]
    assert task.min_length <= len(bits) <= task.length
    parities = {i: 1 + sum(bits[: i + 1]) % 2 for i in range(len(bits))}
    return parities if task.labels == "all" else {len(bits) - 1: parities[len(bits) - 1]}


def solve_modular(task, row: list[int]) -> Solution:
    """Python reads the expression."""
    text = "".join(task.word(token) for token in row).rstrip("·")
    expression, rest = text.split("=")
    assert (rest, task.min_length <= len(expression) <= task.length) == ("", True)
    operations = sum(letter in "+-x" for letter in expression)
    assert expression.count("(") == expression.count(")") == task.brackets * operations
    return {len(expression): 1 + eval(expression.replace("x", "*")) % task.modulus}


def solve_stacks(task, row: list[int]) -> Solution:
    held: dict[int, list[int]] = {}
    solution = {}
    for i in range(0, len(row), 3):
        operation, stack, symbol = row[i : i + 3]
        if task.word(operation) == "push":
            held.setdefault(stack, []).append(symbol)
        else:
            solution[i + 1] = held[stack].pop()
            assert symbol == solution[i + 1]
    return solution


def solve_hops(task, row: list[int]) -> Solution:
    row = [token for token in row if token]
    first = next(i for i, token in enumerate(row) if token <= task.hops)
    after = {row[i]: row[i + 1] for i in range(0, first, 2)}
    assert task.min_nodes <= len(after) == first // 2 <= task.nodes
    assert set(after) == set(after.values())
    solution = {}
    for i in range(first, len(row), 2):
        name = row[i + 1]
        for _ in range(row[i]):
            name = after[name]
        solution[i + 1] = name
    assert len(solution) == task.questions
    return solution


def solve_mad_recall(task, row: list[int]) -> Solution:
    """A value is known if its key occurred before."""
    solution: Solution = {}
    value: dict[int, int] = {}
    for i in range(0, len(row), 2):
        key = row[i]
        if task.word(key)[0] == "n":  # noise comes in pairs
            assert task.word(row[i + 1])[0] == "n"
            continue
        assert task.word(key)[0] == "k"
        if key in value:
            solution[i] = value[key]
        if i + 1 < len(row):
            assert row[i + 1] == value.setdefault(key, row[i + 1])
    assert len(row) - 1 in solution
    return solution


def solve_mad_fuzzy(task, row: list[int]) -> Solution:
    """Motifs are runs of key tokens, then of value tokens; a value is an answer if its key occurred before."""
    kinds = "".join(task.word(token)[0] for token in row)
    at, solution = len(kinds) - len(kinds.lstrip("p")), {}
    value: dict[tuple[int, ...], list[int]] = {}
    while at < len(row):
        middle = at + len(kinds[at:]) - len(kinds[at:].lstrip("k"))
        end = middle + len(kinds[middle:]) - len(kinds[middle:].lstrip("v"))
        key, found = tuple(row[at:middle]), row[middle:end]
        assert len(set(key)) == len(key) <= task.key_size
        assert len(set(found)) == len(found) <= task.value_size
        assert len(key) == task.key_size or not task.largest_keys
        if key in value:
            assert found == value[key][: len(found)]
            solution |= {middle - 1 + i: token for i, token in enumerate(value[key])}
        value.setdefault(key, found)
        at = end
    return solution


_learnt: dict = {}


def solve_mad_memorization(task, row: list[int]) -> Solution:
    """The map, learnt from rows of another seed and purpose; each key has one value."""
    if task not in _learnt:
        batch = task.batch(99, "valid", 1000)
        keys = batch.tokens[:, ::2].flatten().tolist()
        pairs = set(zip(keys, batch.answers.flatten().tolist(), strict=True))
        assert len({key for key, _ in pairs}) == len({value for _, value in pairs}) == len(pairs)
        _learnt[task] = dict(pairs)
    assert set(row[1::2]) == {task.vocab - 1}
    return {i + 1: _learnt[task][row[i]] for i in range(0, len(row), 2)}


def solve_mad_selective_copy(task, row: list[int]) -> Solution:
    blank, mark = task.vocab - 2, task.vocab - 1
    middle = row.index(mark)
    items = [token for token in row[:middle] if token != blank]
    assert row[middle - 1] != blank  # MAD's quirk
    assert row[middle + 1 :] == [blank] * len(items)
    assert len(items) == task.items
    return {middle + 1 + i: item for i, item in enumerate(items)}


SOLVERS = {
    "words": solve_words,
    "parity": solve_parity,
    "modular": solve_modular,
    "stacks": solve_stacks,
    "hops": solve_hops,
    "mad_recall": solve_mad_recall,
    "mad_noisy": solve_mad_recall,
    "mad_fuzzy": solve_mad_fuzzy,
    "mad_memorization": solve_mad_memorization,
    "mad_selective_copy": solve_mad_selective_copy,
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


NEXT_TOKENS = {"mad_recall", "mad_noisy", "mad_fuzzy"}
"""Tasks that train every next token, of which only some can be known."""


def wrong(task, batch: Batch) -> list[int]:
    """The rows whose trained answers are not what an oracle finds in their tokens."""
    names = ("tokens", "positions", "answers", "scored" if task.kind in NEXT_TOKENS else "trained")
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
    """Skip what no oracle reads, and variants of released generators whose rows can have two answers."""
    if task.reads_at_once:
        pytest.skip("its answers are the row itself: test_mad.py")
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
    assert {*SOLVERS, "mixture", "mad_compression"} == kinds == set(TASKS)


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
