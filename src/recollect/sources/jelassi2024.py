"""Jelassi et al., "Repeat after me: Transformers are better than state space models at copying" (2024), by its released code."""

from recollect.sources.base import AnyTask, Fields, Source, Unknown


def protocol(task: AnyTask) -> Fields:
    """Jelassi et al., copy: 2,000 steps of 8 contexts, linear decay after 100 steps of warm-up."""
    return {
        "steps": 2000, "batch": 8, "train_rows": 0, "test_rows": 1024, "eval_rows": 128, "eval_every": 50,
        "weight_decay": 0.1, "clip": 1.0, "warmup": 100, "schedule": "linear",
    }  # fmt: skip


COPYING = (
    Unknown(
        "task.length of copying", "5 to 20", "each figure's lengths; the released default", short="5 to 20 letters"
    ),
    Unknown("train.steps", "2,000", "how many each figure has; the released default", short="2,000 steps"),
    Unknown("model of the LSTM", "4 layers of width 1024", "its size", short="an LSTM of 4 layers of width 1024"),
    Unknown("train.seed", "three", "how many, and which", short="seeds"),
)
NGRAM = (
    Unknown("task.n, task.k", "2, 3", "of n-gram lookup", short="n = 2, k = 3"),
    Unknown("task.length of n-gram lookup", "50 to 100", "the rows' lengths", short="50 to 100 letters"),
    *(one for one in COPYING if one.name.startswith("train.")),
)
SOURCE = Source(
    "jelassi2024",
    "Jelassi et al., Repeat after me: Transformers are better than state space models at copying",
    unknown=tuple(dict.fromkeys((*COPYING, *NGRAM))),
)
