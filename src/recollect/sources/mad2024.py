"""Poli et al., "Mechanistic design and scaling of hybrid architectures" (2024), and its released code (athms/mad-lab)."""

from recollect.sources.base import AnyTask, Fields, Source, Unknown


def protocol(task: AnyTask) -> Fields:
    """Poli et al.: 200 epochs over 12,800 rows (memorization: 256) of 128, cosine without warm-up, ends at 99.9 %."""
    few = task.kind == "mad_memorization"
    return {
        "epochs": 200, "train_rows": 256 if few else 12_800, "test_rows": 1280, "batch": 128, "weight_decay": 0.0,
        "warmup": 0.0, "schedule": "cosine", "stop_at": 0.999, "eval_rows": 640, "eval_every": 20 if few else 200,
    }  # fmt: skip


_UNKNOWN = (
    Unknown("train.schedule", "cosine to 0", "the text has cosine to 1e-6; the released code hands its scheduler to Lightning "
            "under a key that is not read, so that the rate stays constant"),
    Unknown("train.stop_at", "0.999", "the released code ends a run there; the text does not say so"),
    Unknown("accuracy", "the share of right answers, averaged over rows", "the released code averages over classes"),
    Unknown("model", "linear maps start from N(0, 0.02^2), no bias in the head", "the released code keeps PyTorch's initial "
            "values and has a bias"),
)  # fmt: skip
SOURCE = Source(
    "mad2024",
    "Poli et al., Mechanistic design and scaling of hybrid architectures (MAD)",
    unknown=_UNKNOWN,
)
