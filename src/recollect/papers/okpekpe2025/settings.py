"""The settings of Okpekpe & Orvieto at each scale, and the grids that its items are views of.

`paper` is appendix A.2 as printed. `small` has the paper's vocabulary and set of rows, one setting, two widths and 6 epochs of
smaller batches, which make as many steps as 12 epochs of the paper's: one GPU. `tiny` has 16 tokens, 4 pairs and 32 words, widths
8 to 32 and at most 1,000 steps (2-layer models 3,000), and ends a run at 99 %: two CPU cores.
"""

from collections.abc import Sequence
from typing import Any

from recollect.analysis.window import ZOOLOGY_RATES
from recollect.papers.judge import Scale
from recollect.study.grid import axis
from recollect.study.spec import Study

NAME = "okpekpe2025"
SEEDS = {"tiny": [42, 123], "small": [42, 123, 777], "paper": [42, 123, 777]}
FINE = {
    "tiny": axis("logspace", 1e-4, 1e-1, 10),  # Zoology's four are every second of the first seven
    "small": axis("logspace", 1e-4, 1e-1, 10),
    "paper": sorted({*axis("logspace", 1e-5, 1e-1, 17), *(float(f"{rate:.12g}") for rate in ZOOLOGY_RATES)}),
}
"""The finer grid, Zoology's four rates among it."""
SETTINGS = {"tiny": [(16, 4)], "small": [(64, 4)], "paper": [(64, 4), (128, 8), (256, 16), (512, 64)]}
"""Tokens and pairs."""
DENSE = {"tiny": (16, 4), "small": (64, 16), "paper": (256, 64)}
"""Figure 4: as many pairs as the length holds."""
HARDEST = {"tiny": (16, 4), "small": (64, 4), "paper": (512, 64)}
"""Tables 2 to 4: one pair of 64 is 2 %."""
WIDTHS = {"tiny": [8, 16, 32], "small": [64, 128], "paper": [64, 128, 256, 512, 1024, 2048]}
"""Of one-layer models."""
ABLATION_WIDTH = {"tiny": 32, "small": 128, "paper": 256}
"""Tables 2 and 3, and the control of variants."""
POSITIONS_WIDTH = {"tiny": 32, "small": 64, "paper": 256}
"""Table 4: sixteen models."""
LARGER_BATCH: dict[Scale, dict[str, int]] = {"tiny": {"batch": 64}, "small": {}, "paper": {}}
"""Figure 7, Tables 2 and 3: with half of that, 1-layer Mamba of width 32 does not reach 95 % in 1,000 steps."""
LONGER, LONGER_RATES = 3000, [rate for place, rate in enumerate(FINE["tiny"]) if place not in (1, 9)]
"""Steps and rates of 2-layer models at `tiny`: Mamba does not solve in 1,000."""
ALL = ["attention", "based", "h3", "hyena", "rwkv", "mamba"]
RECURRENT = ["h3", "hyena", "rwkv", "mamba"]
MAIN = ["attention", "hyena", "mamba"]
"""The models of Figure 1, and of the main text's Figures 2 and 3: which, the text does not say."""

_TINY = (
    "MQAR with 16 tokens, 4 pairs and 32 words; fresh rows, batch 32, at most 1,000 steps (ends at 99 %), head not tied, "
    "attention with rotary positions. The paper: lengths 64 to 512, 8,192 words, 50 epochs over 100,000 rows."
)
_SMALL = (
    "6 epochs of batches of 256 instead of 50 of 512, at most 10 learning rates, widths 64 and 128, MQAR (64, 4) (Figure 4: 16 "
    "pairs), bfloat16."
)
_UNKNOWN = "Not stated, so chosen: learning rates, tied head, random filler, cosine decay, learned positions"
DIFFERS: dict[Scale, str] = {"tiny": _TINY, "small": f"{_SMALL} {_UNKNOWN}.", "paper": f"{_UNKNOWN}."}


def differs(paper: str = "", **scales: str) -> dict[Scale, str]:
    """The small print of an item: what all have in common, and what it adds."""
    added = {"paper": paper, "small": paper, **scales}
    return {scale: f"{text} {added.get(scale, '')}".strip() for scale, text in DIFFERS.items()}


def model(
    mixer: Any, scale: Scale, width: int | Sequence[int], layers: int | Sequence[int], **fields: Any
) -> dict[str, Any]:
    """The fields of a model at a scale."""
    kind = mixer if isinstance(mixer, str) else mixer["kind"]
    small: dict[str, Any] = {"tie": False} if scale == "tiny" else {}
    if scale == "tiny" and kind == "attention":
        small["positions"] = "rotary"
    return {"mixer": mixer, "width": _axis(width), "layers": _axis(layers), **small, **fields}


def train(scale: Scale, rates: Sequence[float] | None = None, **fields: Any) -> dict[str, Any]:
    """The fields of training at a scale."""
    how: dict[Scale, dict[str, Any]] = {
        "tiny": {"steps": 1000, "batch": 32, "eval_every": 25, "eval_rows": 256, "test_rows": 1024, "stop_at": 0.99},
        "small": {"protocol": NAME, "epochs": 6, "batch": 256, "precision": "bfloat16"},
        "paper": {"protocol": NAME},
    }
    return {"lr": list(FINE[scale] if rates is None else rates), "seed": SEEDS[scale], **how[scale], **fields}


def tasks(scale: Scale, settings: Sequence[tuple[int, int]], **fields: Any) -> list[dict[str, Any]]:
    """MQAR at these settings."""
    vocab = {"vocab": 32} if scale == "tiny" else {}
    return [{"kind": "mqar", "length": length, "pairs": pairs, **vocab, **fields} for length, pairs in settings]


def study(
    name: str,
    scale: Scale,
    models: list[dict[str, Any]],
    settings: Sequence[tuple[int, int]] | None = None,
    **fields: Any,
) -> Study:
    """A grid over models, settings, rates and seeds; `fields` are those of training, or `rates`."""
    return Study(
        name=f"{NAME}.{name}.{scale}", model=models, train=train(scale, **fields),
        task=tasks(scale, SETTINGS[scale] if settings is None else settings),
    )  # fmt: skip


def one_layer(scale: Scale) -> list[Study]:
    """Figures 3 and 12."""
    return [study("one-layer", scale, [model(mixer, scale, WIDTHS[scale], 1) for mixer in ALL])]


def two_layers(scale: Scale) -> list[Study]:
    """Figures 2 and 11; at `tiny` the models of Figure 1, which take longer to learn than those of one layer."""
    if scale == "tiny":
        return [
            study("two-layers", scale, [model(mixer, scale, 32, 2) for mixer in MAIN], rates=LONGER_RATES, steps=LONGER)
        ]
    return [study("two-layers", scale, [model(mixer, scale, WIDTHS[scale], 2) for mixer in ALL])]


def setting(row: Any) -> str:
    """(64, 4)"""
    return f"({row['task.length']}, {row['task.pairs']})"


def _axis(value: int | Sequence[int]) -> int | list[int]:
    return value if isinstance(value, int) else list(value)
