"""Grazzi et al., "Unlocking state-tracking in linear RNNs through negative eigenvalues" (2025), and Siems et al., "DeltaProduct"
(2025), with its released code."""

from recollect.sources.base import AnyTask, Fields, Source, Unknown


def protocol(task: AnyTask) -> Fields:
    """Siems et al., word problems: 100 epochs over 100,000 rows in batches of 2,048; parity and arithmetic as Grazzi et al.:
    20,000 steps of 256 fresh rows, warm-up over a tenth."""
    if task.kind == "words":
        return {
            "epochs": 100, "train_rows": 100_000, "batch": 2048, "weight_decay": 0.0, "warmup": 0.0, "schedule": "cosine",
        }  # fmt: skip
    return {"steps": 20_000, "batch": 256, "weight_decay": 0.1, "warmup": 0.1, "schedule": "cosine"}


_UNKNOWN = (
    Unknown("model.width", "128", "DeltaProduct states one layer and 8 heads"),
    Unknown("train.warmup", "0", "that of the word problems"),
)
SOURCE = Source(
    "statetracking2025",
    "Grazzi et al., Unlocking state tracking through negative eigenvalues; Siems et al., DeltaProduct",
    unknown=_UNKNOWN,
)
