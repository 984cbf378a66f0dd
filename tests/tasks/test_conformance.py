"""Every built-in task, with its options, and what it is tested on, keeps every rule of `recollect.testing`."""

import pytest

from recollect.tasks import TASKS, Task, as_task
from recollect.testing import Check, TaskConformance
from recollect.testing.tasks import answerable

CASES: list[dict] = [
    {"kind": "mqar"},
    {"kind": "mqar", "length": 16, "pairs": 4, "vocab": 18, "filler": "blank"},
    {"kind": "mqar", "length": 128, "pairs": 8, "roles": "shared"},
    {"kind": "mqar", "length": 64, "pairs": 16, "variant": "zoology"},
    {"kind": "ar"},
    {"kind": "ar", "pairs": 3, "vocab": 8, "roles": "shared"},
    {"kind": "copy"},
    {"kind": "copy", "packed": True},
    {"kind": "copy", "min_length": 1, "length": 2},
    {"kind": "ngram"},
    {"kind": "ngram", "query": "prefix"},
    {"kind": "ngram", "n": 3, "k": 1, "min_length": 8, "length": 9},
    {"kind": "ngram", "variant": "jelassi"},
    {"kind": "ngram", "variant": "jelassi", "query": "prefix"},
    {"kind": "duplicates"},
    {"kind": "duplicates", "segments": 3, "query": "prefix"},
    {"kind": "duplicates", "segments": 10, "variant": "released"},
    {"kind": "position"},
    {"kind": "position", "query": "prefix", "length": 20},
    {"kind": "position", "variant": "sampled"},
    {"kind": "mixture", "parts": [{"kind": "mqar"}, {"kind": "mqar", "length": 128, "pairs": 8}]},
    {"kind": "mixture", "parts": [{"kind": "copy", "packed": True}, {"kind": "copy", "length": 7}]},
    {"kind": "induction"},
    {"kind": "induction", "length": 3, "symbols": 2},
    {"kind": "selective_copy"},
    {"kind": "selective_copy", "length": 5, "items": 5},
    {"kind": "noisy"},
    {"kind": "noisy", "length": 12, "pairs": 4},
    {"kind": "fuzzy"},
    {"kind": "fuzzy", "key_length": 1, "value_length": 2, "pairs": 3},
    {"kind": "compositional"},
    {"kind": "updating"},
]
KEYED = {"mqar", "ar", "induction", "noisy", "updating"}
"""Those whose answer stands right after an earlier copy of the token it is read at."""


def name(case: dict) -> str:
    """A case as pytest shows it."""
    options = [f"{key}={value}" for key, value in case.items() if key not in ("kind", "parts")]
    parts = [part["kind"] for part in case.get("parts", [])]
    return "-".join([case["kind"], *parts, *options])


class TestBuiltIn(TaskConformance):
    """All rules for all cases, as they are trained and as they are tested."""

    @pytest.fixture(autouse=True, params=CASES, ids=name)
    def case(self, request: pytest.FixtureRequest) -> None:
        self.task = as_task(request.param)
        self.keyed = self.task.kind in KEYED

    def hold(self, check: Check) -> None:
        more = {"keyed": self.keyed} if check.function is answerable else {}
        tasks: list[Task] = [self.task, self.task.for_test()]
        for task in dict.fromkeys(tasks):
            note = check.function(task, self.rows, **more)
            assert note is None or (task.kind == "position" and note == "names no sources")


def test_no_built_in_task_is_missing():
    assert {case["kind"] for case in CASES} == set(TASKS)
