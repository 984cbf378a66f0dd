"""Poli et al., "Mechanistic Design and Scaling of Hybrid Architectures" (2024): MAD's six tasks and the score."""

from typing import Any

import numpy as np
import pandas as pd

from recollect.analysis.pooled import Pool, pool
from recollect.figures.tables import table_figure
from recollect.models.spec import ModelSpec
from recollect.papers.estimates import Estimate, mean_of
from recollect.papers.item import Drawing, Item, Paper
from recollect.papers.judge import Claim, Evidence, Scale
from recollect.papers.mad2024.settings import NAME, PUBLISHED, TASKS, accuracies, model, score, studies
from recollect.papers.questions import Finding, all_of, at_least, exceeds
from recollect.sources.mad2024 import SOURCE
from recollect.study.spec import Study

MIXERS: dict[str, Any] = {
    "attention": {"kind": "attention", "heads": 16},
    "mamba2": "mamba2",
    "deltanet": "deltanet",
    "gated_deltanet": "gated_deltanet",
    "hyena": "hyena",
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
        return studies(
            f"{NAME}.{scale}",
            MIXERS.values(),
            changed=False,
            seed=[42, 123],
            weight_decay=0.1,
            epochs=100,
            precision="bfloat16",
        )
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


def table(runs: pd.DataFrame) -> pd.DataFrame:
    """One row per model: its accuracy on each task, the score, and what papers report."""
    found = accuracies(runs)
    if found.empty:
        return pd.DataFrame(columns=["model", *TASKS, "score", "published"])
    wide = found.pivot_table(index="model", columns="task.kind", values="accuracy", sort=False).reindex(
        columns=list(TASKS)
    )
    scores = score(found)
    kinds = dict(zip(runs["model"], runs["model.mixer"], strict=True))
    reported = [np.mean([*PUBLISHED.get(kinds[name], {}).values()] or [np.nan]) for name in wide.index]
    return wide.assign(score=[scores[name] for name in wide.index], published=reported).reset_index()


def draw(evidence: Evidence, caption: str) -> Drawing:
    """A table of accuracies."""
    made = table(evidence.runs)
    return table_figure(
        made.rename(columns=lambda name: name.removeprefix("mad_")), "MAD: accuracies and score", caption
    ), made


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


def _solves(pairs: list[tuple[str, str]]):
    def test(evidence: Evidence) -> Finding:
        return all_of(*(lambda m=m, t=t: at_least(_accuracy(evidence, m, t), SOLVES) for m, t in pairs))

    return test


def _worse(mixer: str, than: str, task: str):
    def test(evidence: Evidence) -> Finding:
        return exceeds(_accuracy(evidence, than, task), _accuracy(evidence, mixer, task), by=LESS)

    return test


SCORE = Item(
    "score",
    "Accuracies on the six tasks, and the score",
    "which mixers recall, copy, memorise and compress",
    draw,
    score_studies,
    (
        Claim(
            "delta-rule-recalls",
            f"DeltaNet and Gated DeltaNet reach {SOLVES} on in-context and noisy recall",
            _solves([(m, t) for m in ("deltanet", "gated_deltanet") for t in ("mad_recall", "mad_noisy")]),
        ),
        Claim(
            "attention-copies",
            f"Attention reaches {SOLVES} on selective copying",
            _solves([("attention", "mad_selective_copy")]),
        ),
        Claim(
            "deltanet-memorises-less",
            f"On memorization DeltaNet is at least {LESS} worse than attention",
            _worse("deltanet", "attention", "mad_memorization"),
        ),
        Claim(
            "hyena-is-not-fuzzy",
            f"On fuzzy recall Hyena is at least {LESS} worse than attention",
            _worse("hyena", "attention", "mad_fuzzy"),
        ),
        Claim(
            "attention-is-less-fuzzy",
            "On fuzzy recall attention is worse than DeltaNet",
            lambda evidence: exceeds(
                _accuracy(evidence, "deltanet", "mad_fuzzy"), _accuracy(evidence, "attention", "mad_fuzzy")
            ),
        ),
    ),
    {
        "tiny": "Six small tasks (rows of 8 to 32 tokens, vocabularies of 8 to 32), width 32, at most 600 steps of 32 fresh "
        "rows, one rate, no weight decay, 2 seeds.",
        "medium": "The six baselines of the 66 settings, 100 epochs instead of 200, weight decay 0.1 only, 2 seeds.",
        "paper": "All 66 settings, one seed; published numbers are those of the papers named in PUBLISHED.",
    },
)
PAPER = Paper(NAME, SOURCE.title, (SCORE,), ("tiny", "medium", "paper"), SOURCE.unknown)
