"""MAD's 66 settings (athms/mad-lab, configs/tasks), its models, and the score.

Six tasks, each with a baseline and changes of it, one at a time. A setting's accuracy is that of the best of 3 learning rates x 2
weight decays; a task's is the mean over its settings, and the score is the mean over tasks.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from recollect.mixers.spec import MixerSpec
from recollect.models.spec import ModelSpec
from recollect.study.spec import Study

NAME = "mad2024"
RATES, DECAYS = [1e-4, 5e-4, 1e-3], [0.0, 0.1]
ROWS = [6400, 3200, 1600, 800]
"""Smaller training sets; the baseline's has 12,800 rows, that of memorization 256."""
LENGTHS, VOCABULARIES = [256, 512, 1024], [32, 64, 128]
CHANGES: dict[str, dict[str, list[Any]]] = {
    "mad_recall": {"vocab": VOCABULARIES, "length": LENGTHS, "train_rows": ROWS},
    "mad_noisy": {"vocab": [48, 80, 144], "length": LENGTHS, "train_rows": ROWS, "noise": [0.4, 0.6, 0.8]},
    "mad_fuzzy": {"vocab": VOCABULARIES, "length": LENGTHS, "train_rows": ROWS},
    "mad_memorization": {"vocab": [512, 1024, 2048, 4096, 8192]},
    "mad_compression": {"vocab": VOCABULARIES, "length": [64, 128, 256], "train_rows": ROWS},
    "mad_selective_copy": {"vocab": VOCABULARIES, "length": [512, 1024], "train_rows": ROWS, "items": [32, 64, 96]},
}
"""By task, what is changed from the baseline, which the defaults of the tasks are."""
TASKS = tuple(CHANGES)
TaskAndTraining = tuple[dict[str, Any], dict[str, Any]]
"""Fields of a task, and fields of training."""
PUBLISHED: dict[str, dict[str, float]] = {
    name: dict(zip(("mad_compression", "mad_fuzzy", "mad_recall", "mad_memorization", "mad_noisy", "mad_selective_copy"),
                   accuracies, strict=True))
    for name, accuracies in {
        "attention": (0.516, 0.298, 0.941, 0.852, 0.868, 0.996),
        "hyena": (0.452, 0.079, 0.817, 0.895, 0.788, 0.931),
        "mamba": (0.527, 0.067, 0.904, 0.895, 0.901, 0.863),
        "gla": (0.388, 0.069, 0.808, 0.633, 0.816, 0.886),
        "deltanet": (0.422, 0.357, 1.000, 0.528, 1.000, 1.000),
        "rwkv7": (0.445, 0.432, 1.000, 0.891, 1.000, 0.988),
    }.items()
}  # fmt: skip
"""Accuracies over all settings that papers report, by mixer and task: the MAD table of DeltaNet's paper (Yang et al. 2024, where
all rows but DeltaNet's are from Poli et al. 2024), and RWKV-7's row from its own (Peng et al. 2025). They were checked digit by
digit against public transcriptions of both tables, one of them by DeltaNet's first author. For Mamba2 and Gated DeltaNet
no paper is known here that reports all six."""


def settings(task: str, changed: bool = True) -> list[TaskAndTraining]:
    """The settings of a task: the baseline, then its changes."""
    found: list[TaskAndTraining] = [({"kind": task}, {})]
    for name, values in CHANGES[task].items() if changed else ():
        for value in values:
            found.append(({"kind": task}, {name: value}) if name == "train_rows" else ({"kind": task, name: value}, {}))
    return found


def model(mixer: Any, task: str, **fields: Any) -> dict[str, Any]:
    """MAD's model: two layers of a mixer and a SwiGLU network, width 128, no positions but those inside a mixer."""
    positions = "rotary" if "positions" in ModelSpec(mixer=mixer).mixer.takes else "none"
    head = {"head": "autoencoder"} if task == "mad_compression" else {}
    return {
        "mixer": mixer,
        "width": 128,
        "layers": 2,
        "mlp": "swiglu",
        "positions": positions,
        "tie": False,
        **head,
        **fields,
    }


def studies(name: str, mixers: Iterable[Any], changed: bool, **train: Any) -> list[Study]:
    """A study for each task: these mixers in all its settings, or in the baseline only."""
    how = {"protocol": NAME, "lr": RATES, "weight_decay": DECAYS, **train}
    mixers = list(mixers)
    return [
        Study(
            name=f"{name}.{task}" + (f".{number}" if number else ""),
            task=fields,
            model=[model(mixer, task) for mixer in mixers],
            train={**how, **more},
        )
        for task in TASKS
        for number, (fields, more) in enumerate(settings(task, changed))
    ]  # fmt: skip


def mixer_studies(mixer: Any, quick: bool) -> tuple[list[Study], MixerSpec]:
    """The studies of one mixer in all settings, or in the baselines only; and the mixer as it was understood."""
    spec = ModelSpec(mixer=mixer)
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", spec.title).strip("-")[:40]
    return studies(f"mad.{name}", [mixer], changed=not quick), spec.mixer


def accuracies(runs: pd.DataFrame, by: Sequence[str] = ("model", "task.kind")) -> pd.DataFrame:
    """One row per model and task: `accuracy` over the settings that there are, each by its best rate and weight decay (the mean
    over seeds), and how many `settings` that is."""
    if runs.empty:
        return pd.DataFrame(columns=[*by, "accuracy", "settings"])
    fields = [name for name in runs if name.startswith("task.") or name == "train.train_rows"]
    setting = [*by, *(name for name in fields if name not in by)]
    known = runs.assign(accuracy=runs["accuracy"].astype(float).fillna(0.0))
    tried = [*setting, "train.lr", "train.weight_decay"]
    means = known.groupby(tried, sort=False, dropna=False)["accuracy"].agg(["mean"]).reset_index()
    best = means.groupby(setting, sort=False, dropna=False)["mean"].agg(["max"]).reset_index()
    found = best.groupby(list(by), sort=False, dropna=False)["max"].agg(["mean", "count"]).reset_index()
    return found.rename(columns={"mean": "accuracy", "count": "settings"})


def score(table: pd.DataFrame) -> dict[str, float]:
    """By model, the mean over the six tasks; NaN where one is missing."""
    found = {}
    for name, own in table.groupby("model", sort=False):
        values = dict(zip(own["task.kind"], own["accuracy"], strict=True))
        found[str(name)] = sum(values.get(task, float("nan")) for task in TASKS) / len(TASKS)
    return found
