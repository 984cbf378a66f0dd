"""Kimi Team, "Kimi Linear: an expressive, efficient attention architecture" (2025), section 5.1."""

from recollect.sources.base import AnyTask, Fields, Source, Unknown


def protocol(task: AnyTask) -> Fields:
    """Kimi Team, 5.1: at most 20,000 steps; the best of the rates 5e-5, 1e-4, 5e-4 and 1e-3."""
    return {
        "steps": 20_000, "batch": 128, "test_rows": 2048, "weight_decay": 0.1, "clip": 1.0, "warmup": 0.1,
        "schedule": "cosine", "stop_at": 0.999,
    }  # fmt: skip


_UNKNOWN = (
    Unknown("train.batch", "128", "rows are fresh"),
    Unknown("train.schedule", "cosine after a tenth of warm-up", "neither decay nor warm-up is named"),
    Unknown("task", "26 letters in palindromes, 32 symbols on 64 stacks, 8,192 words in MQAR", "the vocabularies"),
    Unknown(
        "task",
        "in stacks a push or a pop with equal probability, of any stack that allows it",
        "how operations are drawn",
    ),
)
SOURCE = Source("kimi2025", "Kimi Team, Kimi Linear: an expressive, efficient attention architecture", unknown=_UNKNOWN)
