"""What the atlas trains: every mixer on a few recall tasks, alike, over a grid of learning rates, at two scales.

`medium`: two layers, bfloat16, for a GPU. `tiny`: smaller rows and models, for two CPU cores. In both a run ends as soon as it
recalls 99 % of its validation rows, so that the steps to learn are those of the run, and a rate counts as good if training got
there, whatever would have come later. `probe` and `probe-2` are the setting of `recollect probe` itself with one and
two layers, and with its search, at both scales.
"""

from typing import Any, Literal

from recollect.mixers import MIXERS
from recollect.probing.setting import Fields, ProbeSetting, baseline, probe_study, small_task
from recollect.spec import SpecError, nearest
from recollect.study.grid import axis
from recollect.study.spec import Study

AtlasScale = Literal["tiny", "medium"]
SCALES: tuple[AtlasScale, ...] = ("tiny", "medium")
PROBE = {"probe": 1, "probe-2": 2}
"""Layers."""
_MQAR = {"mqar-64-4": (64, 4), "mqar-128-8": (128, 8)}


def _mqar(share: int, **fields: Any) -> dict[str, Fields]:
    """MQAR at both settings, with one in so many of their tokens and pairs."""
    kind = {"kind": "mqar", "filler": "blank", **fields}
    return {name: {**kind, "length": n // share, "pairs": pairs // share} for name, (n, pairs) in _MQAR.items()}


TASKS: dict[AtlasScale, dict[str, Fields]] = {
    "tiny": {
        **_mqar(2, vocab=64),
        "ngram": {"kind": "ngram", "n": 1, "min_length": 6, "length": 12, "symbols": 16},
        "position": {"kind": "position", "length": 10},
        "copy": {"kind": "copy", "min_length": 2, "length": 5},
    },
    "medium": {
        **_mqar(1, variant="zoology"),
        "ngram": {"kind": "ngram", "min_length": 25, "length": 50},
        "position": {"kind": "position", "length": 32},
        "copy": {"kind": "copy"},
    },
}
"""By scale and name; the names are those of `medium`."""
NAMES = (*TASKS["medium"], *PROBE)
MODELS: list[Any] = [*MIXERS, {"kind": "attention", "conv": "k"}]
"""Every mixer, and attention with a short convolution on its keys."""
_SHAPE: dict[str, Fields] = {
    **{name: {"width": 64, "tie": True} for name in _MQAR},
    **{name: {"width": 128, "tie": False} for name in ("ngram", "position", "copy")},
}
_STEPS = {"mqar-64-4": 5000, "mqar-128-8": 5000, "ngram": 6000, "position": 6000, "copy": 4000}
"""Of `medium`, at most."""
_TRAIN: dict[AtlasScale, Fields] = {
    "tiny": {
        "lr": axis("logspace", 10**-3.5, 1e-1, 6), "seed": [1, 2], "steps": 400, "batch": 64, "eval_every": 25, "eval_rows": 256,
        "test_rows": 1024,
    },
    "medium": {
        "lr": axis("logspace", 10**-4.5, 1e-1, 8), "seed": [1, 2], "batch": 256, "eval_every": 100, "eval_rows": 1024,
        "test_rows": 4096, "precision": "bfloat16",
    },
}  # fmt: skip
_SHARED: Fields = {"stop_at": 0.99, "weight_decay": 0.1, "warmup": 0.1, "schedule": "cosine", "clip": 1.0}


def atlas_study(task: str, scale: AtlasScale = "medium") -> Study:
    """Every mixer on a task of the atlas, with two layers, or as the probe has it."""
    if task not in NAMES:
        raise SpecError(f"the atlas has no task {task!r}: {nearest(task, NAMES)}")
    if scale not in SCALES:
        raise SpecError(f"the atlas has no scale {scale!r}: {nearest(scale, SCALES)}")
    if task in PROBE:
        setting = ProbeSetting(small_task("mqar", {}), layers=(PROBE[task],))
        return probe_study(study_name(task, scale), [baseline(mixer) for mixer in MODELS], setting)
    shape: Fields = {"width": 32, "tie": False} if scale == "tiny" else _SHAPE[task]
    steps: dict[str, Any] = {} if scale == "tiny" else {"steps": _STEPS[task]}
    return Study(
        name=study_name(task, scale),
        task=TASKS[scale][task],
        model=[{**baseline(mixer), "layers": 2, **shape} for mixer in MODELS],
        train={**_TRAIN[scale], **_SHARED, **steps},
    )


def study_name(task: str, scale: AtlasScale) -> str:
    """atlas.copy.medium; those of the probe's setting are the same at every scale: atlas.probe"""
    return f"atlas.{task}" if task in PROBE else f"atlas.{task}.{scale}"
