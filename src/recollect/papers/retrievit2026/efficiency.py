"""Figures 3, 7 and 19 (left): how many examples each model needs."""

from collections.abc import Callable

from recollect.papers.drawing import Draw, lines
from recollect.papers.examples import curve_table
from recollect.papers.item import Item
from recollect.papers.judge import Scale
from recollect.papers.retrievit2026 import needed
from recollect.papers.retrievit2026.settings import (
    SSMS,
    TITLES,
    TaskName,
    blocks,
    differs,
    families,
    states,
    studies,
    view,
)  # fmt: skip
from recollect.study.spec import Study


def draw(title: str) -> Draw:
    """Accuracy against training examples, a line per model."""
    return lines(
        lambda evidence: curve_table(evidence.curves, view(evidence), TITLES), "examples", "model", title=title,
        xlabel="training examples", logx=False,
    )  # fmt: skip


def _studies(part: str, task: TaskName, models: Callable[[Scale], tuple[str, ...]]) -> Callable[[Scale], list[Study]]:
    return lambda scale: studies(part, scale, task, models(scale))


def _with_references(scale: Scale) -> tuple[str, ...]:
    return "RoPE", *states(scale)


def _blocks(scale: Scale) -> tuple[str, ...]:
    return "RoPE", *SSMS[scale], *blocks(scale)


FIG3A = Item(
    "fig3a",
    "N-gram retrieval: data efficiency",
    "hybrids need the fewest examples, then RoPE, then SSMs and NoPE",
    draw("N-gram retrieval"),
    _studies("ngram", "suffix", families),
    needed.FIG3A,
    differs(),
    ("curves",),
)
FIG3B = Item(
    "fig3b",
    "N-gram retrieval: size of the state",
    "more state helps, and is not enough to pass RoPE",
    draw("N-gram retrieval, size of the state"),
    _studies("ngram-states", "suffix", _with_references),
    needed.FIG3B,
    differs(),
    ("curves",),
)
FIG3C = Item(
    "fig3c",
    "N-gram retrieval: SSM layers to a Transformer layer",
    "up to three SSM layers to one pass RoPE",
    draw("N-gram retrieval, interleaved N:1"),
    _studies("ngram-blocks", "suffix", _blocks),
    needed.FIG3C,
    differs(),
    ("curves",),
)
FIG7A = Item(
    "fig7a",
    "Position retrieval: data efficiency",
    "RoPE first, hybrids and NoPE later, SSMs not at all",
    draw("Position retrieval"),
    _studies("position", "position", families),
    needed.FIG7A,
    differs(),
    ("curves",),
)
FIG7B = Item(
    "fig7b",
    "Position retrieval: size of the state",
    "no size of the state suffices",
    draw("Position retrieval, size of the state"),
    _studies("position-states", "position", _with_references),
    needed.FIG7B,
    differs(),
    ("curves",),
)
FIG7C = Item(
    "fig7c",
    "Position retrieval: SSM layers to a Transformer layer",
    "more Transformer layers, fewer examples",
    draw("Position retrieval, interleaved N:1"),
    _studies("position-blocks", "position", _blocks),
    needed.FIG7C,
    differs(),
    ("curves",),
)
FIG19 = Item(
    "fig19",
    "Position retrieval: reverse gating (left)",
    "with the gate on the Mamba stream a two-stream model learns sooner",
    draw("Position retrieval, two-stream and with the gate reversed"),
    _studies("position-reverse", "position", lambda scale: ("RoPE", "2S-M2", "2SR-M2")),
    needed.FIG19,
    differs(),
    ("curves",),
)
