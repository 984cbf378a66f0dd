"""The data law of every task. If one of these changes, so has every past run of that task: raise the semantics version."""

import hashlib

import pytest

from recollect.tasks import TASKS, as_task

GOLDEN: dict[str, str] = {
    "ar": "bb28db45badbfa21",
    "compositional": "27504ca821283eae",
    "copy": "d939d00720874482",
    "duplicates": "db6248f599119be4",
    "fuzzy": "81221d65b6dbca97",
    "induction": "01112c5021835d1c",
    "mixture": "b61028b182839140",
    "mqar": "1f8ca9277082f3ef",
    "ngram": "232dfbbc1287c027",
    "noisy": "f27edb9bf3877cd4",
    "position": "f08929c4df34b0ca",
    "selective_copy": "fec930213b37937d",
    "updating": "203c6e3d12edcdbc",
}


def law(kind: str) -> str:
    task = as_task(
        {"kind": "mixture", "parts": ["mqar", {"kind": "mqar", "length": 128}]} if kind == "mixture" else kind
    )
    batch = task.batch(42, "train", 64)
    hashed = hashlib.sha256()
    for tensor in (batch.tokens, batch.positions, batch.answers, batch.trained):
        hashed.update(tensor.contiguous().numpy().tobytes())
    return hashed.hexdigest()[:16]


@pytest.mark.parametrize("kind", sorted(TASKS))
def test_the_data_law_has_not_changed(kind):
    assert law(kind) == GOLDEN[kind]
