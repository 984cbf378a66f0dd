"""`chance` has one meaning for all tasks: simulated here by a guess that sees what a row offers, and nothing else.

And `seen_share`, which finds training rows that contain the test rows.
"""

from collections import Counter
from collections.abc import Callable, Hashable

import pytest

from recollect.tasks import TASKS, Task, as_task
from recollect.tasks.base import largest_share
from recollect.tasks.mad_memorization import values_of

Row = tuple[list[int], list[int]]
"""A row's tokens, and its scored answers."""
Offered = Callable[[Task, Row], tuple[list[Hashable], list[Hashable]]]
"""From a row to what it offers, and to what its answers are: single tokens, or whole strings."""


def values(task, row: Row):
    """The value of every key that could be asked."""
    tokens = [token for token in row[0] if token < task.vocab] if task.kind == "noisy" else row[0]
    writes = task.pairs + getattr(task, "updates", 0)
    return list({tokens[i]: tokens[i + 1] for i in range(0, 2 * writes, 2)}.values()), row[1]


def composed(task, row: Row):
    return row[0][2 : 3 * task.pairs : 3], row[1]


def grams(task, row: Row):
    """The strings of k symbols at the positions where an answer can be."""
    length, n, k, starts = task.length, task.n, task.k, task.length - task.n - task.k + 1
    sequence = row[0][1 : 1 + length]
    starts -= 3 * (task.variant == "jelassi")
    return [tuple(sequence[i + n : i + n + k]) for i in range(starts)], [tuple(row[1])]


def segments(task, row: Row):
    n, k, size = task.n, task.k, task.segment
    places = size - n - k + (task.variant == "clean")
    starts = [1 + size * j + i + n for j in range(task.segments) for i in range(places)]
    return [tuple(row[0][i : i + k]) for i in starts], [tuple(row[1])]


def induced(task, row: Row):
    return [token for token in row[0][1:-1] if token != 1], row[1]


def selected(task, row: Row):
    return [token for token in row[0][: task.length] if token], row[1]


def fuzzy_values(task, row: Row):
    """The tokens of the values in the first half of the pairs (each pair occurs twice)."""
    half, pairs, found = task.vocab // 2, 0, []
    for before, token in zip([0, *row[0]], row[0], strict=False):
        pairs += before >= half > token
        if pairs == task.pairs:
            break
        found += [token] * (token >= half)
    return found, row[1]


def recalled(task, row: Row):
    """Every value token of the row, the last one included, which is not fed."""
    return [token for token in (*row[0], row[1][-1]) if task.word(token)[0] == "v"], row[1]


def pushed(task, row: Row):
    return [row[0][i + 2] for i in range(0, len(row[0]), 3) if task.word(row[0][i]) == "push"], row[1]


OFFERED: dict[str, Offered] = {
    "mqar": values, "ar": values, "noisy": values, "updating": values, "compositional": composed, "ngram": grams,
    "duplicates": segments, "induction": induced, "selective_copy": selected, "fuzzy": fuzzy_values,
    "position": lambda task, row: (list(range(task.vocabulary - task.length, task.vocabulary)), row[1]),
    "words": lambda task, row: (list(range(1, task.vocabulary)), row[1]),
    "parity": lambda task, row: ([1, 2], row[1]),
    "modular": lambda task, row: (list(range(1, 1 + task.modulus)), row[1]),  # the first, 0, is what products have most often
    "stacks": pushed, "hops": lambda task, row: (sorted({*row[0][: 2 * task.nodes]}), row[1]),
    "mad_recall": recalled, "mad_noisy": recalled, "mad_fuzzy": recalled,
    "mad_memorization": lambda task, row: (values_of(0, task.keys, task.keys + 1).tolist(), row[1]),
    "mad_compression": lambda task, row: (row[0], row[1]),
    "mad_selective_copy": lambda task, row: ([t for t in row[0] if t < task.vocab - 2], row[1]),
    "copy": lambda task, row: ([tuple(sorted(row[1]))], [tuple(row[1])]),  # its letters, in any order: say, sorted
}  # fmt: skip

CASES: list[dict] = [
    {"kind": "mqar"},
    {"kind": "mqar", "length": 32, "pairs": 8, "variant": "zoology"},
    {"kind": "ar"},
    {"kind": "noisy"},
    {"kind": "updating"},
    {"kind": "updating", "pairs": 8, "variant": "zoology"},
    {"kind": "compositional"},
    {"kind": "copy", "min_length": 1, "length": 3},
    {"kind": "copy", "min_length": 3, "length": 5, "packed": True},
    {"kind": "ngram"},
    {"kind": "ngram", "k": 1},
    {"kind": "ngram", "k": 2, "min_length": 12, "length": 12, "symbols": 4},
    {"kind": "ngram", "variant": "jelassi"},
    {"kind": "duplicates"},
    {"kind": "duplicates", "segments": 10},
    {"kind": "duplicates", "segments": 10, "variant": "released"},
    {"kind": "position", "length": 20},
    {"kind": "position", "variant": "sampled"},
    {"kind": "induction"},
    {"kind": "induction", "length": 8, "symbols": 4},
    {"kind": "selective_copy"},
    {"kind": "selective_copy", "length": 8, "items": 2, "symbols": 3},
    {"kind": "fuzzy"},
    {"kind": "fuzzy", "pairs": 4, "vocab": 16, "value_length": 1},
    {"kind": "words", "length": 8},
    {"kind": "parity", "length": 8},
    {"kind": "modular", "length": 9},
    {"kind": "modular", "brackets": True, "length": 9},
    {"kind": "stacks", "operations": 24, "symbols": 8},
    {"kind": "hops", "nodes": 6, "questions": 2},
    {"kind": "mad_recall", "length": 32},
    {"kind": "mad_noisy", "length": 32},
    {"kind": "mad_fuzzy", "length": 48},
    {"kind": "mad_memorization", "length": 8, "vocab": 32},
    {"kind": "mad_compression"},
    {"kind": "mad_selective_copy", "length": 48},
]


def guessed(task: Task, row: Row, candidates: list) -> float:
    """How much of a row the guess of what it offers most often gets right."""
    offered, asked = OFFERED[task.kind](task, row)
    if candidates:  # the most frequent strings hold parts of the query, which is in every segment: no better
        return float(offered[0] in candidates)
    guess = Counter(offered).most_common(1)[0][0]
    return sum(guess == one for one in asked) / len(asked)


@pytest.mark.parametrize("case", CASES, ids=lambda case: ",".join(f"{k}={v}" for k, v in case.items())[5:])
def test_chance_is_the_best_guess_of_what_a_row_offers(case):
    task = as_task(case).for_test()
    rows = 20_000
    batch = task.batch(0, "test", rows)
    tokens, answers, scored = batch.tokens.tolist(), batch.answers.tolist(), batch.scored.tolist()
    several = [] if batch.candidates is None else batch.candidates.tolist()
    right = 0.0
    for i in range(rows):
        asked = [answer for answer, counts in zip(answers[i], scored[i], strict=True) if counts]
        right += guessed(task, (tokens[i], asked), [tuple(gram) for gram in several[i]] if several else [])
    chance = as_task(case).chance
    assert right / rows == pytest.approx(chance, rel=0.1, abs=3 * (chance / rows) ** 0.5)


def test_every_kind_is_simulated():
    assert {case["kind"] for case in CASES} == OFFERED.keys() == set(TASKS) - {"mixture"}


def test_the_chance_of_a_mixture_is_the_mean_over_its_rows():
    parts = [{"kind": "mqar", "weight": 3}, {"kind": "mqar", "length": 128, "pairs": 8}]
    assert as_task({"kind": "mixture", "parts": parts}).chance == pytest.approx((3 / 4 + 1 / 8) / 4)


@pytest.mark.parametrize(("n", "kinds", "exact"), [(1, 16, 1.0), (2, 16, 17 / 32), (3, 2, 0.75), (4, 8, 1.648 / 4)])
def test_the_largest_share_of_few(n, kinds, exact):
    assert largest_share(n, kinds) == pytest.approx(exact, rel=0.06)
    assert largest_share(10**6, kinds) == pytest.approx(1 / kinds, rel=0.02)


FEW: list[dict] = [
    {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 18, "filler": "blank"},
    {"kind": "mqar", "length": 8, "pairs": 2, "vocab": 10},
    {"kind": "ar", "pairs": 4, "vocab": 12},
    {"kind": "ar", "pairs": 2, "vocab": 8},
    {"kind": "copy", "min_length": 1, "length": 5},
    {"kind": "copy", "min_length": 3, "length": 3},
    {"kind": "position", "length": 8},
    {"kind": "induction", "length": 8, "symbols": 4},
    {"kind": "selective_copy", "length": 8, "items": 2, "symbols": 4},
    {"kind": "compositional", "pairs": 4, "parts": 2, "vocab": 12},
]


@pytest.mark.parametrize("case", FEW, ids=lambda case: ",".join(f"{k}={v}" for k, v in case.items())[5:])
def test_how_many_test_rows_are_in_the_training_set(case):
    task = as_task(case)
    train = {row.tobytes() for row in task.batch(3, "train", 100_000).tokens.numpy()}
    test = [row.tobytes() for row in task.batch(3, "test", 2_000).tokens.numpy()]
    counted = sum(row in train for row in test) / len(test)
    assert counted > 0.05
    assert task.seen_share(100_000) == pytest.approx(counted, abs=0.12)
    assert task.seen_share(0) == 0


@pytest.mark.parametrize("kind", sorted(set(TASKS) - {"mixture", "parity", "modular"}))  # these have short strings too
def test_no_test_row_of_a_default_setting_is_in_the_training_set(kind):
    assert as_task(kind).seen_share(100_000) == 0
