"""Poli et al., "Mechanistic Design and Scaling of Hybrid Architectures" (2024): MAD's six tasks and the score.

There are 66 settings (athms/mad-lab, configs/tasks): each task has a baseline and changes of it, one at a time. A setting's
accuracy is that of the best of 3 learning rates x 2 weight decays; a task's is the mean over its settings, and the score is the
mean over tasks.
"""

import re
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from recollect.analysis.pooled import Pool, pool
from recollect.mixers.spec import MixerSpec
from recollect.models.spec import ModelSpec
from recollect.papers.estimates import Estimate, mean_of
from recollect.papers.item import Item, Paper, table
from recollect.papers.judge import Claim, Evidence, Scale
from recollect.papers.questions import Finding, at_least, every, exceeds
from recollect.sources.mad2024 import SOURCE
from recollect.study.spec import Study

NAME = SOURCE.name
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
    shape = {"width": 128, "layers": 2, "mlp": "swiglu", "positions": positions, "tie": False}
    return {"mixer": mixer, **shape, **head, **fields}


def studies(name: str, mixers: Iterable[Any], changed: bool, **train: Any) -> list[Study]:
    """A study for each task: these mixers in all its settings, or in the baseline only."""
    how = {"protocol": NAME, "lr": RATES, "weight_decay": DECAYS, **train}
    mixers = list(mixers)
    return [
        Study(name=f"{name}.{task}" + (f".{number}" if number else ""), task=fields, train={**how, **more},
              model=[model(mixer, task) for mixer in mixers])
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


MIXERS: dict[str, Any] = {
    "attention": {"kind": "attention", "heads": 16},
    **{name: name for name in ("mamba2", "deltanet", "gated_deltanet", "hyena")},
}
SOLVES, LESS = 0.95, 0.1
"""The accuracy from which a task is solved; by how much a mixer must be worse than another."""
_BY_SEED = ("model", "task.kind", "train.seed")
SMALL: dict[str, dict[str, Any]] = {
    "mad_recall": {"length": 32, "vocab": 8},
    "mad_noisy": {"length": 32, "vocab": 16, "noises": 8},
    "mad_fuzzy": {"length": 32, "vocab": 8, "key_size": 2, "value_size": 2},
    "mad_memorization": {"length": 8, "vocab": 32},
    "mad_compression": {"length": 8, "vocab": 8},
    "mad_selective_copy": {"length": 24, "items": 4, "vocab": 8},
}
"""The tasks at scale `tiny`."""


def score_studies(scale: Scale) -> list[Study]:
    """The baseline of each task; all settings at scale `paper`."""
    if scale == "paper":
        return studies(f"{NAME}.{scale}", MIXERS.values(), changed=True, precision="bfloat16")
    if scale == "medium":
        how = {"seed": [42, 123], "weight_decay": 0.1, "epochs": 100, "precision": "bfloat16"}
        return studies(f"{NAME}.{scale}", MIXERS.values(), changed=False, **how)
    if scale != "tiny":
        return []
    how = {"protocol": NAME, "steps": 600, "train_rows": 0, "batch": 32, "lr": 3e-3, "weight_decay": 0.0,
           "stop_at": 0.999, "eval_every": 50, "eval_rows": 256, "test_rows": 512, "seed": [42, 123]}  # fmt: skip
    return [
        Study(name=f"{NAME}.{scale}.{task}", task={"kind": task, **fields}, train=how,
              model=[model(_narrow(mixer), task, width=32) for mixer in MIXERS.values()])
        for task, fields in SMALL.items()
    ]  # fmt: skip


def _narrow(mixer: Any) -> Any:
    """A mixer for width 32."""
    return {**mixer, "heads": 4} if isinstance(mixer, dict) else mixer


def accuracy_table(runs: pd.DataFrame) -> pd.DataFrame:
    """One row per model: its accuracy on each task, the score, and what papers report."""
    found = accuracies(runs)
    wide = found.pivot_table(index="model", columns="task.kind", values="accuracy", sort=False)
    wide = wide.reindex(columns=list(TASKS))
    scores = score(found)
    kinds = dict(zip(runs["model"], runs["model.mixer"], strict=True))
    reported = [np.mean([*PUBLISHED.get(kinds[name], {}).values()] or [np.nan]) for name in wide.index]
    return wide.assign(score=[scores[name] for name in wide.index], published=reported).reset_index()


def _accuracy(evidence: Evidence, mixer: str, task: str) -> Estimate:
    """A mixer's accuracy on a task over its settings: one number per seed, each setting by its best rate and weight decay."""
    option = _narrow(MIXERS[mixer]) if evidence.scale == "tiny" else MIXERS[mixer]
    runs = evidence.where(model=ModelSpec(mixer=option).title, **{"task.kind": task})
    values = accuracies(runs, _BY_SEED)["accuracy"]
    return mean_of(values, f"{mixer}, {task}", evidence.once("pool", _pool))


def _pool(evidence: Evidence) -> Pool | None:
    """What the seeds of all models and tasks say about the variance."""
    table = accuracies(evidence.runs, _BY_SEED)
    return pool([list(own["accuracy"]) for _, own in table.groupby(["model", "task.kind"])], bounded=True)


def _solves(mixers: Sequence[str], tasks: Sequence[str], evidence: Evidence) -> Finding:
    return every(product(mixers, tasks), lambda mixer, task: at_least(_accuracy(evidence, mixer, task), SOLVES))


def _worse(mixer: str, than: str, task: str, by: float, evidence: Evidence) -> Finding:
    return exceeds(_accuracy(evidence, than, task), _accuracy(evidence, mixer, task), by=by)


SCORE = Item(
    "score", "Accuracies on the six tasks, and the score", "which mixers recall, copy, memorise and compress",
    table(
        lambda evidence: accuracy_table(evidence.runs), "MAD: accuracies and score",
        shown=lambda made: made.rename(columns=lambda name: name.removeprefix("mad_")),
    ),
    score_studies,
    (
        Claim("delta-rule-recalls", f"DeltaNet and Gated DeltaNet reach {SOLVES} on in-context and noisy recall",
              partial(_solves, ("deltanet", "gated_deltanet"), ("mad_recall", "mad_noisy"))),
        Claim("attention-copies", f"Attention reaches {SOLVES} on selective copying",
              partial(_solves, ("attention",), ("mad_selective_copy",))),
        Claim("deltanet-memorises-less", f"On memorization DeltaNet is at least {LESS} worse than attention",
              partial(_worse, "deltanet", "attention", "mad_memorization", LESS)),
        Claim("hyena-is-not-fuzzy", f"On fuzzy recall Hyena is at least {LESS} worse than attention",
              partial(_worse, "hyena", "attention", "mad_fuzzy", LESS)),
        Claim("attention-is-less-fuzzy", "On fuzzy recall attention is worse than DeltaNet",
              partial(_worse, "attention", "deltanet", "mad_fuzzy", 0.0)),
    ),
    {
        "tiny": "Six small tasks (rows of 8 to 32 tokens, vocabularies of 8 to 32), width 32, at most 600 steps of 32 fresh "
        "rows, one rate, no weight decay, 2 seeds.",
        "medium": "The six baselines of the 66 settings, 100 epochs instead of 200, weight decay 0.1 only, 2 seeds.",
        "paper": "All 66 settings, one seed; published numbers are those of the papers named in PUBLISHED.",
    },
)  # fmt: skip
PAPER = Paper(NAME, SOURCE.title, (SCORE,), ("tiny", "medium", "paper"), SOURCE.unknown)
