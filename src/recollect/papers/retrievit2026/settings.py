"""The models, tasks and training of Retrievit at each scale, the studies that its items are views of, and captions.

Models by short names: RoPE and NoPE are Transformers; M and M2 are Mamba and Mamba2 (M2x2, M2x4: with two and four times the
state); HI-M2-3 is interleaved, three Mamba2 layers before each Transformer layer; 2S-M2 is two-stream, 2SR-M2 with the gate on
the other stream. `paper` is Tables 1 and 2 as printed (its 2:1 and 3:1 rows as their counts say).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from recollect.papers.judge import SCALES, Scale
from recollect.sources import preset
from recollect.sources.base import chosen_text
from recollect.sources.retrievit2026 import SOURCE
from recollect.study.spec import Study

NAME = SOURCE.name
CONTROLLED: tuple[Scale, ...] = ("small", "medium", "paper")
"""The scales that can refute a claim of our own controls."""
Fields = dict[str, Any]
TaskName = Literal["suffix", "prefix", "suffix-99", "prefix-99", "position"]
"""N-gram retrieval with the query after or before the sequence, to 95 % or to 99 %, and position retrieval."""
Models = Sequence[str] | Mapping[Scale, Sequence[str]] | Callable[[Scale], Sequence[str]]
"""Models by their short names, the same at every scale or not."""
Trained = Callable[[Scale], list[Study]]
"""The studies of an item."""
TRANSFORMERS, M2_HYBRIDS = ("RoPE", "NoPE"), ("HI-M2-1", "2S-M2")
HYBRIDS: Mapping[Scale, tuple[str, ...]] = {
    **dict.fromkeys(SCALES, M2_HYBRIDS),
    "paper": ("HI-M-1", "HI-M2-1", "2S-M", "2S-M2"),
}
SSMS: Mapping[Scale, tuple[str, ...]] = {**dict.fromkeys(SCALES, ("M2",)), "paper": ("M", "M2")}
"""Only `paper` has the older Mamba."""
FIVE = ("RoPE", "NoPE", "M2", "HI-M2-1", "2S-M2")
"""The models of Figure 4."""
FOUR = ("RoPE", "M2", "HI-M2-1", "2S-M2")
"""Those of Figures 5, 6 and 8."""
M2_BLOCKS = ("HI-M2-1", "HI-M2-2", "HI-M2-3", "HI-M2-4")
"""Interleaved models, by how many SSM layers come before a Transformer layer."""
TITLES = {
    "RoPE": "Transformer (RoPE)", "NoPE": "Transformer (NoPE)", "M": "Mamba", "M2": "Mamba2", "Mx2": "Mamba, 2 x state",
    "Mx4": "Mamba, 4 x state", "M2x2": "Mamba2, 2 x state", "M2x4": "Mamba2, 4 x state",
    **{f"HI-{kind}-{n}": f"interleaved {ssm} {n}:1" for kind, ssm in (("M", "Mamba"), ("M2", "Mamba2")) for n in (1, 2, 3, 4)},
    "2S-M": "two-stream Mamba", "2S-M2": "two-stream Mamba2", "2SR-M2": "reverse two-stream Mamba2",
}  # fmt: skip
"""Names in legends, in the order in which they are drawn."""


@dataclass(frozen=True)
class ScaleSettings:
    """The settings of a scale."""

    ngram: Fields
    lengths: tuple[int, ...]
    """Lengths of the test sequences, starting with the longest trained one."""
    segments: tuple[int, ...]
    """Numbers of segments of duplicate queries."""
    position: int
    """Tokens of position retrieval."""
    seeds: tuple[int, ...]
    ngram_train: Fields
    position_train: Fields
    suffix_train: Fields = field(default_factory=dict)
    """Fields that differ in n-gram retrieval with the query after the sequence."""
    others: Fields = field(default_factory=dict)
    """Fields that differ for models other than the five that most claims are about."""
    tied: Fields = field(default_factory=dict)
    """Fields that differ for models of the five whose head is tied here and untied in the paper."""
    size: Fields | None = None
    """Width, layers, heads, rotary fraction and state of the smaller models; None: the paper's own."""


RATES, SEEDS = [1e-5, 5e-5, 1e-4], (12345, 123456, 1234567)
SMALL_RATES = [2e-4, 5e-4]
SETTINGS: dict[Scale, ScaleSettings] = {
    "tiny": ScaleSettings(
        ngram={"n": 1, "k": 3, "min_length": 6, "length": 12, "symbols": 16}, lengths=(12, 18, 24, 36, 48), segments=(2, 3),
        position=10, seeds=(12345, 123456),
        ngram_train={"lr": 1e-3, "steps": 1250, "batch": 64, "eval_every": 50, "eval_rows": 256, "test_rows": 512},
        position_train={"lr": 2e-3, "steps": 2500, "batch": 32, "eval_every": 50, "eval_rows": 256, "test_rows": 512},
        size={"width": 64, "layers": 2, "heads": 2, "rotary": 1.0, "state": 8},
    ),
    "small": ScaleSettings(
        ngram={"min_length": 25, "length": 50}, lengths=(50, 62, 75, 87, 100, 150, 200), segments=(2, 3, 4, 10), position=32,
        seeds=SEEDS,
        ngram_train={
            "lr": SMALL_RATES, "steps": 12_000, "eval_every": 100, "eval_rows": 1024, "test_rows": 4096, "precision": "bfloat16"
        },
        position_train={"lr": SMALL_RATES, "steps": 12_000, "eval_every": 100, "test_rows": 8192, "precision": "bfloat16"},
        size={"width": 256, "layers": 4, "heads": 4, "rotary": 0.25, "state": 16},
    ),
    "medium": ScaleSettings(
        ngram={"min_length": 25, "length": 50}, lengths=(50, 62, 75, 87, 100, 150, 200), segments=(2, 3, 4, 10), position=64,
        seeds=SEEDS,
        ngram_train={
            "lr": [5e-4, 1e-3], "seed": [*SEEDS, 1, 2], "steps": 16_000, "eval_every": 100, "eval_rows": 1024, "test_rows": 4096,
            "precision": "bfloat16",
        },
        suffix_train={"steps": 40_000},
        others={"lr": 5e-4, "seed": list(SEEDS)},
        tied={"lr": 5e-4},
        position_train={"lr": SMALL_RATES, "steps": 40_000, "eval_every": 200, "test_rows": 8192, "precision": "bfloat16"},
        size={"width": 256, "layers": 4, "heads": 4, "rotary": 0.25, "state": 16},
    ),
    "paper": ScaleSettings(
        ngram={}, lengths=(100, 125, 150, 175, 200, 300, 400), segments=(2, 3, 4, 10), position=200,
        seeds=SEEDS, ngram_train={"lr": RATES, "precision": "bfloat16"}, position_train={"lr": RATES, "precision": "bfloat16"},
    ),
}  # fmt: skip
PAPER_LONGER: Fields = {"steps": 468_750, "stop_at": 0.99}
"""Up to 30 M examples, or to 99 %: before extrapolation and duplicate queries."""


def model(name: str, scale: Scale) -> Fields:
    """The fields of a model."""
    fields, size = preset(_preset(name)), SETTINGS[scale].size
    if size is None:
        return fields
    period = len(fields.get("pattern", "T"))
    layers = period * math.ceil(size["layers"] / period)
    return {**_smaller(fields, size), "width": size["width"], "layers": layers, "tie": False}


def _preset(name: str) -> str:
    """HI-M2-3: retrievit-interleaved-mamba2-3."""
    first, *rest = name.split("-")
    kinds = {"M": "mamba", "M2": "mamba2"}
    if name in TRANSFORMERS:
        return f"retrievit-transformer-{name.lower()}"
    if first in ("HI", "2S", "2SR"):
        words = {"HI": "interleaved", "2S": "twostream", "2SR": "reverse"}[first], kinds[rest[0]], *rest[1:]
        return "-".join(("retrievit", *words))
    kind, _, times = name.partition("x")
    return f"retrievit-{kinds[kind]}-{16 * int(times or 1)}"


def _smaller(node: Any, size: Fields) -> Any:
    """The same fields with another number of heads and another state in every mixer."""
    if not isinstance(node, dict):
        return node
    if node.get("kind") == "attention":
        return {**node, "heads": size["heads"], "rotary_fraction": size["rotary"]}
    if "state" in node:
        return {**node, "state": node["state"] * size["state"] // 16}
    return {name: _smaller(value, size) for name, value in node.items()}


def study(part: str, scale: Scale, task: TaskName, models: Sequence[str], **fields: Any) -> Study:
    """These models on a task, over rates and seeds; `fields` override those of every model."""
    built = [{**model(name, scale), **fields} for name in models]
    how = _setting(task, scale, set(models) <= set(FIVE), bool(fields.get("tie")))
    return Study(name=f"{NAME}.{part}.{scale}", model=built, **how)


def studies(part: str, scale: Scale, task: TaskName, models: Sequence[str]) -> list[Study]:
    """One study of these models; or two, where a scale trains models other than the five differently."""
    five = [name for name in models if name in FIVE]
    if not SETTINGS[scale].others or len(five) in (0, len(models)):
        return [study(part, scale, task, models)]
    others = [name for name in models if name not in FIVE]
    return [study(part, scale, task, five), study(f"{part}-others", scale, task, others)]


def at_scale(models: Models, scale: Scale) -> Sequence[str]:
    """The models of an item at a scale."""
    return models(scale) if callable(models) else models[scale] if isinstance(models, Mapping) else models


def studied(part: str, task: TaskName, models: Models) -> Trained:
    """The studies of an item at each scale."""
    return lambda scale: studies(part, scale, task, at_scale(models, scale))


def _setting(task: TaskName, scale: Scale, five: bool, tied: bool) -> Fields:
    """Task, training and further tests, for models of the five or for others, with a tied head or as they are."""
    setting = SETTINGS[scale]
    train = {"protocol": NAME, "seed": list(setting.seeds)}
    own = {**({} if five else setting.others), **(setting.tied if tied else {})}
    if task == "position":
        train |= {**setting.position_train, "snapshots": 4, **own}
        return {"task": {"kind": "position", "length": setting.position}, "train": train}
    query, _, longer = task.partition("-")
    asked = {"kind": "ngram", "query": query, **setting.ngram}
    train |= {**setting.ngram_train, **(setting.suffix_train if query == "suffix" else {}), "slices": "final", **own}
    if scale == "paper" and not longer:
        return {"task": asked, "train": train}
    train |= PAPER_LONGER if scale == "paper" else {"stop_at": 0.99}  # a smaller scale has one study for both
    tests = [{**asked, "min_length": length, "length": length} for length in setting.lengths[1:]]
    rest = {name: value for name, value in asked.items() if name not in ("kind", "min_length")}
    tests += [{**rest, "kind": "duplicates", "segments": s} for s in setting.segments]
    return {"task": asked, "train": train, "tests": tests}


def states(scale: Scale) -> tuple[str, ...]:
    """SSMs with once, twice and four times the state."""
    return tuple(f"{name}{times}" for name in SSMS[scale] for times in ("", "x2", "x4"))


def blocks(scale: Scale) -> tuple[str, ...]:
    """Interleaved models with 1 to 4 SSM layers before a Transformer layer."""
    return tuple(f"HI-{name}-{n}" for name in SSMS[scale] for n in (1, 2, 3, 4))


def families(scale: Scale) -> tuple[str, ...]:
    """The models of Figures 3a and 7a."""
    return *TRANSFORMERS, *SSMS[scale], *HYBRIDS[scale]


_MODELS: dict[Scale, str] = {
    "tiny": "Models of 2 layers (interleaved N:1: N + 1) and width 64 with untied heads, one learning rate.",
    "small": "Models of 4 layers and width 256 with untied heads, the better of two learning rates, bfloat16.",
    "medium": "Models of 4 layers and width 256 with untied heads, the better of two learning rates (models beyond the five of "
    "Figure 4: one), bfloat16.",
}
_TASKS: dict[str, dict[Scale, str]] = {
    "ngram": {
        "tiny": "Rows of 6 to 12 tokens among 16 symbols, n = 1, k = 3, batch 64, at most 1,250 steps to 99 %.",
        "small": "Rows of 25 to 50 tokens, at most 12,000 steps to 99 %.",
        "medium": "Rows of 25 to 50 tokens, 5 seeds (models beyond the five: 3), at most 40,000 steps with the query last and "
        "16,000 with it first, to 99 %.",
        "paper": "rows of 50 to 100 tokens, n = 2, k = 3",
    },
    "position": {
        "tiny": "Rows of 10 tokens, batch 32, at most 2,500 steps to 95 %.",
        "small": "Rows of 32 tokens, at most 12,000 steps to 95 %.",
        "medium": "Rows of 64 tokens, at most 40,000 steps to 95 %.",
        "paper": "rows of 200 tokens",
    },
}


def differs(kind: Literal["ngram", "position"], tiny: str = "", small: str = "", paper: str = "") -> dict[Scale, str]:
    """The captions of an item by scale: what items of its task share, and what it adds; `small` is also for `medium`."""
    task, added = _TASKS[kind], {"tiny": tiny, "small": small, "medium": small}
    theirs = f"The paper: 150 M parameters, {task['paper']}, 20 M examples, SSMs and hybrids tied."
    found: dict[Scale, str] = {
        scale: f"{models} {task[scale]} {theirs} {added[scale]}".strip() for scale, models in _MODELS.items()
    }
    return {**found, "paper": f"As printed. {chosen_text(SOURCE.unknown)} {paper}".strip()}
