"""The training protocols of the papers, as presets of TrainSpec; any field a study gives itself comes first.

What a source does not state is chosen here and listed in `UNKNOWN`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from recollect.spec.registry import Registry
from recollect.train.optimisers import OPTIMISERS

if TYPE_CHECKING:
    from recollect.tasks.base import Task

Fields = dict[str, Any]


class Unknown(NamedTuple):
    """Something that a source does not state."""

    name: str
    """The field of a run's specification, or what it is in words."""
    chosen: str
    why: str
    control: str = ""
    """The item of the paper that shows whether it matters, where there is one."""


UNKNOWN: dict[str, tuple[Unknown, ...]] = {
    "okpekpe2025": (
        Unknown("train.lr", "17 rates from 1e-5 to 1e-1", "a finer grid than Zoology's, not listed"),
        Unknown("train.schedule", "cosine", "the shape of the decay after warm-up; Zoology's"),
        Unknown("train.clip", "0", "no clipping is named"),
        Unknown("train.stop_at", "0", "Zoology's code ends a run above 99 %; the text has 50 epochs", "stopping"),
        Unknown("accuracy", "at the last step", "or that of the best epoch", "stopping"),
    ),
    "retrievit2026": (
        Unknown("train.decay", "matrices", "which parameters decay"),
        Unknown("train.seed", "one for data and weights", "what the seeds decide"),
        Unknown("curves", "the runs of the best rate", "whether curves pool the rates or pick one"),
    ),
    "mad2024": (
        Unknown(
            "train.schedule",
            "cosine to 0",
            "the text has cosine to 1e-6; the released code hands its scheduler to "
            "Lightning under a key that is not read, so that the rate stays constant",
        ),
        Unknown("train.stop_at", "0.999", "the released code ends a run there, the text does not say so"),
        Unknown(
            "accuracy",
            "the share of answers that are right, averaged over rows",
            "the released code averages over classes",
        ),
        Unknown(
            "model",
            "linear maps start from N(0, 0.02^2), the head has no bias",
            "the released code keeps PyTorch's initial values and has a bias; initial values of each layer are its own",
        ),
    ),
    "kimi2025": (
        Unknown("train.batch", "128", "not stated; rows are fresh"),
        Unknown("train.schedule", "cosine after a tenth of warm-up", "not stated"),
        Unknown(
            "task",
            "26 letters in palindromes, 32 symbols on 64 stacks, 8,192 words in MQAR",
            "vocabularies are not stated",
        ),
    ),
    "statetracking2025": (
        Unknown("model.width", "128 with 8 heads", "DeltaProduct states one layer and 8 heads"),
        Unknown("train.schedule", "cosine without warm-up", "the warm-up of the group word problems is not stated"),
    ),
}
"""By protocol: what its source does not state about training."""


def okpekpe2025(task: "Task") -> Fields:
    """Okpekpe & Orvieto, A.2: 50 epochs over 100,000 rows, AdamW, linear warm-up over a tenth of the run."""
    batch = 512 if task.row_length < 256 else 256 if task.row_length < 512 else 128
    return {
        "epochs": 50, "train_rows": 100_000, "test_rows": 3000, "batch": batch, "weight_decay": 0.1, "warmup": 0.1,
        "schedule": "cosine", "clip": 0.0,
        "eval_every": 49,  # four points an epoch, to see a transition inside one
    }  # fmt: skip


def zoology2024(task: "Task") -> Fields:
    """Arora et al., figure 2: 64 epochs, cosine without warm-up, ends above 99 %."""
    return okpekpe2025(task) | {"epochs": 64, "warmup": 0.0, "schedule": "cosine", "stop_at": 0.99}


def retrievit2026(task: "Task") -> Fields:
    """Pantazopoulos et al., Table 2: fresh rows, 312,500 steps of 64, cosine after a tenth of warm-up, ends at 95 %."""
    return {
        "steps": 312_500, "batch": 64, "train_rows": 0, "test_rows": 100_000, "eval_rows": 2048, "eval_every": 500,
        "weight_decay": 0.01, "decay": "matrices", "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "clip": 1.0, "warmup": 0.1,
        "schedule": "cosine", "stop_at": 0.95, "slices": "always",
    }  # fmt: skip


def jelassi2024(task: "Task") -> Fields:
    """Jelassi et al., copy: 2,000 steps of 8 contexts, linear decay after 100 steps of warm-up."""
    return {
        "steps": 2000, "batch": 8, "train_rows": 0, "test_rows": 1024, "eval_rows": 128, "eval_every": 50,
        "weight_decay": 0.1, "clip": 1.0, "warmup": 100, "schedule": "linear",
    }  # fmt: skip


def mad2024(task: "Task") -> Fields:
    """Poli et al., MAD: 200 epochs over 12,800 rows (memorization: 256) of 128, cosine without warm-up, ends at 99.9 %."""
    return {
        "epochs": 200, "train_rows": 256 if task.kind == "mad_memorization" else 12_800, "test_rows": 1280, "batch": 128,
        "weight_decay": 0.0, "warmup": 0.0, "schedule": "cosine", "stop_at": 0.999, "eval_rows": 640,
        "eval_every": 20 if task.kind == "mad_memorization" else 200,
    }  # fmt: skip


def kimi2025(task: "Task") -> Fields:
    """Kimi Team, 5.1: at most 20,000 steps; the best of the rates 5e-5, 1e-4, 5e-4 and 1e-3."""
    return {
        "steps": 20_000, "batch": 128, "test_rows": 2048, "weight_decay": 0.1, "clip": 1.0, "warmup": 0.1,
        "schedule": "cosine", "stop_at": 0.999,
    }  # fmt: skip


def statetracking2025(task: "Task") -> Fields:
    """Siems et al., word problems: 100 epochs over 100,000 rows in batches of 2,048; parity and arithmetic as Grazzi et al.:
    20,000 steps of 256 fresh rows, warm-up over a tenth."""
    if task.kind == "words":
        return {
            "epochs": 100,
            "train_rows": 100_000,
            "batch": 2048,
            "weight_decay": 0.0,
            "warmup": 0.0,
            "schedule": "cosine",
        }
    return {"steps": 20_000, "batch": 256, "weight_decay": 0.1, "warmup": 0.1, "schedule": "cosine"}


_NAMES = ("okpekpe2025", "zoology2024", "retrievit2026", "jelassi2024", "mad2024", "kimi2025", "statetracking2025")
PROTOCOLS: Registry[Callable[["Task"], Fields]] = Registry(
    "protocol",
    group="recollect.protocols",
    built_in={name: f"{__name__}:{name}" for name in _NAMES},
)
"""Functions from a task to the fields of TrainSpec."""


def with_protocol(train: Fields, task: "Task") -> Fields:
    """`train` with the fields of the protocol it names filled in."""
    train = dict(train)
    if (name := train.pop("protocol", None)) is None:
        return train
    fields = PROTOCOLS.find(str(name))(task)
    if "steps" in train or "epochs" in train:  # one of the two says how long
        fields = {key: value for key, value in fields.items() if key not in ("steps", "epochs")}
    if "optimiser" in train:  # the protocol's numbers are AdamW's: another optimiser takes those it has
        theirs = OPTIMISERS.find(str(train["optimiser"])).model_fields
        adamw = OPTIMISERS.find("adamw").model_fields
        fields = {key: value for key, value in fields.items() if key not in adamw or key in theirs}
    return fields | train
