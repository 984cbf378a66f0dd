"""The settings of Okpekpe & Orvieto at each scale, and the grids that its items are views of.

The task is Zoology's, whose code the authors ran: blank filler, keys queried in the released generator's order.
What no version of the paper states is in `sources/okpekpe2025.py`.
`paper` is appendix A.2 as printed. `medium` has its 50 epochs at the settings and widths that decide a claim, in bfloat16:
three hours of one H200. `small` has one setting, two widths and 6 epochs of smaller batches, which make as many steps as 12
epochs of the paper's. `tiny` has 16 tokens, 4 pairs and 32 words, widths 8 to 32 and at most 1,000 steps, and ends a run at
99 %: two CPU cores. Its windows of 2-layer models are those of 2 pairs, which Mamba learns in time.
"""

from collections.abc import Sequence
from typing import Any

from recollect.analysis.window import ZOOLOGY_RATES
from recollect.papers.judge import Scale
from recollect.sources.base import chosen_text
from recollect.sources.okpekpe2025 import SOURCE
from recollect.study.grid import axis
from recollect.study.spec import Study

NAME = SOURCE.name
Size = int | list[int]
"""A width or a number of layers, or several."""
Settings = Sequence[tuple[int, int]]
"""Tokens and pairs."""
SEEDS = {"tiny": [42, 123], "small": [42, 123, 777], "medium": [42, 123, 777], "paper": [42, 123, 777]}
FIVE_SEEDS = [*SEEDS["medium"], 1234, 2025]
"""Seeds at `medium` where a mean over seeds decides a claim."""
FINE = {
    "tiny": axis("logspace", 1e-4, 1e-1, 10),  # Zoology's four are every second of the first seven
    "small": axis("logspace", 1e-4, 1e-1, 10),
    "medium": axis("logspace", 1e-5, 1e-1, 13),  # the same steps, from a decade further down
    "paper": sorted({*axis("logspace", 1e-5, 1e-1, 17), *(float(f"{rate:.12g}") for rate in ZOOLOGY_RATES)}),
}
"""The finer grid, which includes Zoology's four rates."""
ABOVE = axis("logspace", 1e-5, 10 ** (-1 / 3), 15)[13:]
"""At `medium`: the next two rates, because one seed of Mamba still solves at 0.1."""


def rates_at(*places: int) -> list[float]:
    """Rates of `medium` by their index in its finer grid, three per decade: 3 is 1e-4, 9 is 1e-2."""
    return [FINE["medium"][place] for place in places]


AROUND, FOUR_RATES, THREE_RATES = rates_at(3, 5, 7, 8, 9, 10, 11), rates_at(5, 7, 9, 11), rates_at(5, 7, 9)
"""At `medium`: from 1e-4 to 4.6e-2, and fewer around the best of Figure 1, so that the best has one on either side."""
SETTINGS = {
    "tiny": [(16, 4)], "small": [(64, 4)], "medium": [(64, 4)], "paper": [(64, 4), (128, 8), (256, 16), (512, 64)],
}  # fmt: skip
"""Tokens and pairs."""
WIDTHS = {"tiny": [8, 16, 32], "small": [64, 128], "paper": [64, 128, 256, 512, 1024, 2048]}
"""Widths of one-layer models; at `medium` each item has its own."""
ABLATION_WIDTH = {"tiny": 32, "small": 128, "medium": 128, "paper": 256}
"""Tables 2 and 3, and the controls of one-layer models."""
LARGER_BATCH: dict[Scale, dict[str, int]] = {"tiny": {"batch": 64}, "small": {}, "medium": {}, "paper": {}}
"""Figure 7, Tables 2 and 3: with half of that, 1-layer Mamba of width 32 does not reach 95 % in 1,000 steps."""
LONGER, SIX_RATES = 2500, [FINE["tiny"][place] for place in (0, 2, 4, 5, 6, 8)]
"""At `tiny`: steps of 2-layer models, and the rates of the larger items, so that each takes minutes: Zoology's four, one between
them and one above."""
TINY_WINDOWS: dict[str, Any] = {
    "steps": 2000, "batch": 64, "seed": SEEDS["paper"],
    "rates": [FINE["medium"][1], *(FINE["tiny"][place] for place in (0, 2, 4, 5, 6, 7, 8, 9))],
}  # fmt: skip
"""Windows of 2-layer models at `tiny`, on 2 pairs: Zoology's four rates, one between them, one below and three above."""
ALL = ["attention", "based", "h3", "hyena", "rwkv", "mamba"]
RECURRENT = ["h3", "hyena", "rwkv", "mamba"]
MAIN = ["attention", "hyena", "mamba"]
"""The models of Figure 1, and of the main text's Figures 2 and 3: the text does not say which."""


def tiny_text(task: str = "16 tokens, 4 pairs", batch: int = 32, steps: str = "1,000") -> str:
    """How `tiny` differs from the paper."""
    return (
        f"MQAR with {task} and 32 words; fresh rows, batch {batch}, at most {steps} steps (ends at 99 %), head not tied, "
        "attention with rotary positions. The paper: lengths 64 to 512, 8,192 words, 50 epochs over 100,000 rows."
    )


_SMALL = (
    "6 epochs of batches of 256 instead of 50 of 512, at most 10 learning rates, widths 64 and 128, MQAR (64, 4) (Figure 4: 16 "
    "pairs), bfloat16."
)
_MEDIUM = "50 epochs as in the paper, bfloat16; MQAR (64, 4)."
_CHOSEN = chosen_text(SOURCE.unknown)
DIFFERS: dict[Scale, str] = {
    "tiny": tiny_text(), "small": f"{_SMALL} {_CHOSEN}", "medium": f"{_MEDIUM} {_CHOSEN}", "paper": _CHOSEN,
}  # fmt: skip


def differs(text: str = "", /, batch: int = 32, **scales: str) -> dict[Scale, str]:
    """The captions of an item by scale: what all items share, and `text`, which is for every scale except `tiny`; `batch`: that
    of `tiny`."""
    added = {"small": text, "medium": text, "paper": text, **scales}
    shared: dict[Scale, str] = {**DIFFERS, "tiny": tiny_text(batch=batch)}
    return {scale: f"{text} {added.get(scale, '')}".strip() for scale, text in shared.items()}


TWO_LAYERS_TINY = f"{tiny_text('8 tokens, 2 pairs', 64, '2,000')} Width 32, 9 rates."


def model(mixer: Any, scale: Scale, width: Size, layers: Size, **fields: Any) -> dict[str, Any]:
    """The fields of a model at a scale."""
    kind = mixer if isinstance(mixer, str) else mixer["kind"]
    small: dict[str, Any] = {"tie": False} if scale == "tiny" else {}
    if scale == "tiny" and kind == "attention":
        small["positions"] = "rotary"
    return {"mixer": mixer, "width": width, "layers": layers, **small, **fields}


def _train(scale: Scale, rates: Sequence[float] | None = None, **fields: Any) -> dict[str, Any]:
    """The fields of training at a scale."""
    how: dict[Scale, dict[str, Any]] = {
        "tiny": {"steps": 1000, "batch": 32, "eval_every": 25, "eval_rows": 256, "test_rows": 1024, "stop_at": 0.99},
        "small": {"protocol": NAME, "epochs": 6, "batch": 256, "precision": "bfloat16"},
        "medium": {"protocol": NAME, "precision": "bfloat16"},
        "paper": {"protocol": NAME},
    }
    return {"lr": list(FINE[scale] if rates is None else rates), "seed": SEEDS[scale], **how[scale], **fields}


def _task(scale: Scale, length: int, pairs: int, **fields: Any) -> dict[str, Any]:
    """MQAR, as Zoology's figure 2 has it unless `fields` say otherwise."""
    words = {"vocab": 32} if scale == "tiny" else {}
    given = {"filler": "blank", "variant": "zoology", **words, **fields}
    return {"kind": "mqar", "length": length, "pairs": pairs, **given}


def study(
    name: str,
    scale: Scale,
    mixers: Sequence[Any],
    width: Size,
    layers: Size,
    settings: Settings | None = None,
    **fields: Any,
) -> Study:
    """A grid over mixers, settings, rates and seeds; `fields` are those of training, or `rates`."""
    models = [model(mixer, scale, width, layers) for mixer in mixers]
    return study_of(name, scale, models, settings, **fields)


def study_of(
    name: str,
    scale: Scale,
    models: list[dict[str, Any]],
    settings: Settings | None = None,
    *,
    task: Any = None,
    **fields: Any,
) -> Study:
    """The same of models that differ in more than their mixer; `task`: fields of the task."""
    tasks = [_task(scale, *one, **(task or {})) for one in settings or SETTINGS[scale]]
    return Study(name=f"{NAME}.{name}.{scale}", model=models, train=_train(scale, **fields), task=tasks)


def one_layer(scale: Scale) -> list[Study]:
    """Figures 3 and 12; at `medium` without Based, which no claim is about."""
    if scale == "medium":  # attention and Mamba of width 128 are those of Table 2
        wide = [model(mixer, scale, 256, 1) for mixer in RECURRENT if mixer != "mamba"]
        solved = [model(mixer, scale, 128, 1) for mixer in ("attention", "mamba")]
        return [
            study("one-layer", scale, [mixer for mixer in ALL if mixer != "based"], 64, 1, rates=FOUR_RATES),
            study_of("one-layer-wide", scale, [*wide, *solved], rates=THREE_RATES),
        ]
    return [study("one-layer", scale, ALL, WIDTHS[scale], 1, rates=SIX_RATES if scale == "tiny" else None)]


def two_layers(scale: Scale) -> list[Study]:
    """Figures 2 and 11; at `tiny` and `medium` the models of Figure 1."""
    if scale == "tiny":
        return [study("two-layers", scale, MAIN, 32, 2, [(8, 2)], **TINY_WINDOWS)]
    if scale == "medium":
        return [
            *windows(scale),
            study("two-layers", scale, MAIN, 64, 2, [(128, 8)], rates=AROUND, epochs=25),
            study("two-layers-long", scale, ["mamba"], 64, 2, [(256, 16)], rates=rates_at(7, 8, 9)),
        ]
    return [study("two-layers", scale, ALL, WIDTHS[scale], 2)]


def windows(scale: Scale) -> list[Study]:
    """Figure 1 except at `tiny`: at `small` as at `paper`, in bfloat16; at `medium` Mamba has five seeds, and Hyena also a width
    above the length, which the paper says it needs."""
    if scale == "medium":
        return [
            study("windows", scale, ["attention", "hyena"], 64, 2),
            study("windows-above", scale, ["attention"], 64, 2, rates=ABOVE),
            study("windows-mamba", scale, ["mamba"], 64, 2, rates=[*FINE[scale], *ABOVE], seed=FIVE_SEEDS),
            study("windows-wide", scale, ["hyena"], 128, 2, rates=AROUND),
        ]
    short = {"precision": "bfloat16"} if scale == "small" else {}
    full = study("windows", "paper", MAIN, 64, 2, [(64, 4)], rates=axis("logspace", 1e-5, 1e-1, 17), **short)
    return [full.model_copy(update={"name": f"{NAME}.windows.{scale}"})]


def setting(row: Any) -> str:
    """The setting of a run, such as (64, 4)."""
    return f"({row['task.length']}, {row['task.pairs']})"
