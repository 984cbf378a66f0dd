"""The tasks that what holds for every task is tested on: each kind with its options, small and large."""

import pytest

from recollect.tasks import Task, as_task

EXAMPLES: list[dict] = [
    {"kind": "mqar"},
    {"kind": "mqar", "length": 256, "pairs": 64},
    {"kind": "mqar", "length": 16, "pairs": 4, "vocab": 18, "filler": "blank"},
    {"kind": "mqar", "roles": "shared", "vocab": 66},
    {"kind": "mqar", "length": 64, "pairs": 16, "variant": "zoology"},
    {"kind": "mqar", "variant": "zoology", "filler": "blank"},
    {"kind": "ar"},
    {"kind": "ar", "pairs": 3, "vocab": 8},
    {"kind": "ar", "roles": "shared", "pairs": 24},
    {"kind": "copy"},
    {"kind": "copy", "min_length": 1, "length": 2},
    {"kind": "copy", "min_length": 20},
    {"kind": "copy", "packed": True},
    {"kind": "copy", "packed": True, "min_length": 1, "length": 3, "context": 40},
    {"kind": "ngram"},
    {"kind": "ngram", "query": "prefix"},
    {"kind": "ngram", "n": 1, "k": 1, "symbols": 40},
    {"kind": "ngram", "n": 3, "k": 1, "min_length": 8, "length": 9},
    {"kind": "ngram", "variant": "jelassi"},
    {"kind": "ngram", "variant": "jelassi", "query": "prefix"},
    {"kind": "ngram", "variant": "jelassi", "n": 1, "k": 3, "min_length": 7, "length": 12},
    {"kind": "ngram", "variant": "jelassi", "packed": True},
    {"kind": "ngram", "variant": "jelassi", "packed": True, "query": "prefix", "n": 1, "min_length": 7, "length": 20},
    {"kind": "duplicates"},
    {"kind": "duplicates", "segments": 3, "query": "prefix"},
    {"kind": "duplicates", "segments": 10},
    {"kind": "duplicates", "segments": 10, "variant": "released"},
    {"kind": "position"},
    {"kind": "position", "query": "prefix", "length": 300},
    {"kind": "position", "variant": "sampled"},
    {"kind": "position", "variant": "sampled", "query": "prefix", "length": 40},
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
    {"kind": "compositional", "pairs": 8},
    {"kind": "compositional", "pairs": 7, "parts": 3},
    {"kind": "updating"},
    {"kind": "updating", "updates": 0},
    {"kind": "updating", "updates": 20, "roles": "shared", "vocab": 66},
    {"kind": "updating", "pairs": 8, "variant": "zoology", "filler": "blank"},
    {"kind": "updating", "pairs": 8, "variant": "zoology"},
    {"kind": "copy", "reverse": True},
    {"kind": "copy", "reverse": True, "packed": True, "min_length": 1, "length": 3, "context": 40},
    {"kind": "words"},
    {"kind": "words", "group": "z7", "length": 20, "after": 5},
    {"kind": "words", "group": "a5", "length": 33},
    {"kind": "parity"},
    {"kind": "parity", "labels": "all", "length": 24},
    {"kind": "modular"},
    {"kind": "modular", "brackets": True},
    {"kind": "modular", "brackets": True, "modulus": 3, "length": 9},
    {"kind": "stacks", "operations": 30},
    {"kind": "stacks", "stacks": 2, "symbols": 4, "operations": 3},
    {"kind": "hops"},
    {"kind": "hops", "nodes": 3, "hops": 7, "names": 5},
    {"kind": "mad_recall"},
    {"kind": "mad_recall", "length": 8, "vocab": 64},
    {"kind": "mad_noisy"},
    {"kind": "mad_noisy", "length": 16, "noise": 0.8},
    {"kind": "mad_fuzzy"},
    {"kind": "mad_fuzzy", "length": 18},
    {"kind": "mad_fuzzy", "vocab": 64, "length": 200, "value_size": 1},
    {"kind": "mad_memorization"},
    {"kind": "mad_compression"},
    {"kind": "mad_selective_copy"},
    {"kind": "mad_selective_copy", "length": 40, "items": 16, "vocab": 32},
    {"kind": "mixture", "parts": ["mqar", {"kind": "mqar", "length": 128, "pairs": 8}, {"kind": "updating"}]},
    {"kind": "mixture", "parts": [{"kind": "copy", "packed": True, "weight": 3}, {"kind": "ngram", "variant": "jelassi"}]},
]  # fmt: skip


def name(example: dict) -> str:
    """An example as pytest shows it."""
    if example["kind"] == "mixture":
        return "mixture," + ",".join(part if isinstance(part, str) else part["kind"] for part in example["parts"])
    return ",".join(value if key == "kind" else f"{key}={value}" for key, value in example.items())


@pytest.fixture(params=EXAMPLES, ids=name)
def task(request: pytest.FixtureRequest) -> Task:
    """Each example in turn."""
    return as_task(request.param)


@pytest.fixture
def kinds() -> set[str]:
    """The kinds that have an example."""
    return {example["kind"] for example in EXAMPLES}
