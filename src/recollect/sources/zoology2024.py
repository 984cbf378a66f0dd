"""Arora et al., "Zoology: measuring and improving recall in efficient language models" (2024), and its released code."""

from recollect.sources.base import AnyTask, Fields, Source


def protocol(task: AnyTask) -> Fields:
    """Arora et al., figure 2: 64 epochs over 100,000 rows, cosine without warm-up, ends above 99 %."""
    batch = 512 if task.row_length < 256 else 256 if task.row_length < 512 else 128
    return {
        "epochs": 64, "train_rows": 100_000, "test_rows": 3000, "batch": batch, "weight_decay": 0.1, "warmup": 0.0,
        "schedule": "cosine", "clip": 0.0, "stop_at": 0.99,
        "eval_every": 49,  # four measurements per epoch, to see a transition inside one
    }  # fmt: skip


SOURCE = Source(
    "zoology2024",
    "Arora et al., Zoology: measuring and improving recall (and the Based paper's trade-off)",
)
