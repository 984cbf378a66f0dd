"""Figure 5 and Table 1: copying, after Jelassi et al. (2024)."""

from functools import partial
from typing import Any

import pandas as pd

from recollect.analysis.rates import at_best_rate
from recollect.analysis.window import THRESHOLD
from recollect.figures.panels import mean_and_range
from recollect.papers.estimates import Estimate
from recollect.papers.item import Item, by_best_rate, lines, table
from recollect.papers.judge import Claim, Evidence, Scale
from recollect.papers.okpekpe2025.settings import FINE, NAME, SEEDS
from recollect.papers.okpekpe2025.windows import WIDER, wider
from recollect.papers.questions import Finding, all_of, at_least, at_most, exceeds
from recollect.study.grid import axis
from recollect.study.spec import Study

MARGIN, NOTHING = 0.5, 0.1
"""The least lead in accuracy of the wide Mamba over the deep one (1.00 and 0.16 in the paper); the most of one that copies
nothing (0)."""
SIZES = {"tiny": (2, 32, 44), "small": (4, 256, 352), "medium": (12, 1024, 1408), "paper": (12, 1024, 1408)}
"""Layers, width, and the width at which Mamba has as many parameters as with twice the layers."""


def own_sizes(evidence: Evidence) -> bool:
    """Whether models of the paper's own sizes are among the runs."""
    layers, width, _ = SIZES["paper"]
    return bool(((evidence.runs["model.layers"] == layers) & (evidence.runs["model.width"] == width)).any())


def models(scale: Scale) -> list[dict[str, Any]]:
    """Attention, and Mamba as deep and wide, twice as deep, and wider."""
    layers, width, wide = SIZES[scale]
    heads = {"tiny": 2, "small": 4}.get(scale, 16)
    attention = {"mixer": {"kind": "attention", "heads": heads}, "positions": "rotary", "tie": False}
    mamba = {"mixer": "mamba", "mlp": "none", "norm": "rms", "tie": width == 1024}
    base, deep, wider = ({"width": w, "layers": n} for w, n in ((width, layers), (width, 2 * layers), (wide, layers)))
    return [{**attention, **base}, *({**mamba, **size} for size in (base, deep, wider))]


def studies(scale: Scale) -> list[Study]:
    """All four models over the grid of rates."""
    if scale == "tiny":
        task: dict[str, Any] = {"kind": "copy", "min_length": 2, "length": 5}
        train: dict[str, Any] = {
            "lr": [FINE["tiny"][place] for place in (1, 3, 5, 6, 7)], "steps": 800, "batch": 64, "stop_at": 0.99,
            "eval_every": 25, "eval_rows": 256, "test_rows": 1024,
        }  # fmt: skip
    elif scale == "small":
        task = {"kind": "copy"}
        train = {"protocol": "jelassi2024", "lr": axis("logspace", 1e-4, 1e-2, 7), "batch": 64}
    else:
        task = {"kind": "copy", "packed": True}
        train = {"protocol": "jelassi2024", "lr": axis("logspace", 1e-5, 1e-1, 17)}
    how = {**train, "seed": SEEDS[scale]}
    if scale != "medium":
        return [Study(name=f"{NAME}.copy.{scale}", task=task, model=models(scale), train=how)]
    attention, base, deep, wide = models(scale)  # only two of them have windows to be compared
    rates = axis("logspace", 1e-5, 1e-3, 5)
    grids = {"copy": ([attention, wide], rates), "copy-others": ([base, deep], rates[2:])}
    how |= {"seed": SEEDS[scale][:2], "precision": "bfloat16"}
    return [
        Study(name=f"{NAME}.{part}.{scale}", task=task, model=each, train={**how, "lr": lr})
        for part, (each, lr) in grids.items()
    ]


def _runs(evidence: Evidence, mixer: str, deep: bool = False, wide: bool = False) -> pd.DataFrame:
    layers, *widths = SIZES[evidence.scale]
    return evidence.where(**{"model.mixer": mixer, "layers": layers * (1 + deep), "width": widths[wide]})


def _by_rate(evidence: Evidence) -> pd.DataFrame:
    """Accuracy against learning rate."""
    runs, (layers, width, wide) = evidence.runs, SIZES[evidence.scale]
    drawn = {("attention", layers, width), ("mamba", layers, wide)}
    sizes = zip(*(runs[f"model.{name}"] for name in ("mixer", "layers", "width")), strict=True)
    return mean_and_range(runs.loc[[size in drawn for size in sizes]], ["model.mixer", "train.lr"])


def _by_size(evidence: Evidence) -> pd.DataFrame:
    """Layers, width, parameters, accuracy."""
    columns = ["model.mixer", "model.layers", "model.width"]
    shown = ["parameters", "accuracy", "min", "max", "lr", "seeds"]
    return pd.DataFrame(at_best_rate(evidence.runs, columns), columns=[*columns, *shown])


def _best(evidence: Evidence, name: str, mixer: str, **size: bool) -> Estimate:
    return evidence.best(_runs(evidence, mixer, **size), name)


def _attention_is_wider(evidence: Evidence) -> Finding:
    wide, narrow = _runs(evidence, "attention"), _runs(evidence, "mamba", wide=True)
    same = {"model.width": narrow["model.width"].iloc[0]}  # as many parameters, not as wide
    return wider(evidence, wide.assign(**same), narrow, ("attention", "mamba"), by=WIDER)


def _wide_beats_deep(evidence: Evidence) -> Finding:
    wide = _best(evidence, "wide mamba", "mamba", wide=True)
    deep = partial(_best, evidence, "deep mamba", "mamba", deep=True)
    return all_of(at_least(wide, THRESHOLD), lambda: exceeds(wide, deep(), by=MARGIN))


_JELASSI = (
    "Not stated, so Jelassi's: strings of 5 to 20 letters packed into 220 tokens, 2,000 steps of 8. Figure 5's Mamba is the one "
    "of 12 x 1408, because that of 12 x 1024 copies nothing."
)
_DIFFERS: dict[Scale, str] = {
    "tiny": "Strings of 2 to 5 letters, 2 layers of width 32 (twice as deep: 4; wider: 44), at most 800 steps of 64 rows. The "
    "paper: 12 layers of width 1024, Jelassi's 5 to 20 letters.",
    "small": "4 layers of width 256 (twice as deep: 8; wider: 352), one example per row, batch 64.",
    "medium": f"The paper's sizes, five rates from 1e-5 to 1e-3, 2 seeds, bfloat16. {_JELASSI}",
    "paper": _JELASSI,
}
FIG5 = Item(
    "fig5", "Copying: accuracy against learning rate", "Mamba's window is narrow on another task too",
    lines(_by_rate, "train.lr", "model.mixer", title="Copying, accuracy against learning rate", xlabel="learning rate"), studies,
    (
        Claim("attention-wider", f"In copying, attention's window (accuracy >= {THRESHOLD}) is at least {WIDER} decades wider "
              "than Mamba's", _attention_is_wider, own_sizes),
    ),
    _DIFFERS,
)  # fmt: skip
TABLE1 = Item(
    "table1", "Copying: width against depth", "with as many parameters a wide Mamba copies, a deep one does not",
    table(_by_size, "Copying", shown=by_best_rate), studies,
    (
        Claim("attention-copies", f"Attention copies at least {THRESHOLD} of the strings (paper: 100 %)",
              lambda evidence: at_least(_best(evidence, "attention", "attention"), THRESHOLD), own_sizes),
        Claim("small-mamba-copies-nothing", "A Mamba as deep and as wide as attention, with half of its parameters, copies at "
              f"most {NOTHING} of the strings (paper: 0 %)",
              lambda evidence: at_most(_best(evidence, "mamba", "mamba"), NOTHING), own_sizes),
        Claim("wide-beats-deep", f"The wide Mamba copies at least {THRESHOLD} of the strings and at least {MARGIN} more than the "
              "deep one of as many parameters (paper: 100 and 16 %)", _wide_beats_deep, own_sizes),
    ),
    _DIFFERS,
)  # fmt: skip
