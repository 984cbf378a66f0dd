"""Figures 3, 7 and 19 (left): how many examples each model needs."""

from collections.abc import Callable

from recollect.papers.drawing import Draw, lines
from recollect.papers.examples import ENDED, curve_table
from recollect.papers.item import Item
from recollect.papers.judge import Claim, Scale
from recollect.papers.retrievit2026 import needed
from recollect.papers.retrievit2026.captions import differs
from recollect.papers.retrievit2026.settings import (
    SSMS,
    TITLES,
    TaskName,
    blocks,
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
        xlabel="training examples", logx=False, note=ENDED,
    )  # fmt: skip


Models = Callable[[Scale], tuple[str, ...]]
"""The models of an item, by their short names."""


def _studies(part: str, task: TaskName, models: Models) -> Callable[[Scale], list[Study]]:
    return lambda scale: studies(part, scale, task, models(scale))


def _with_references(scale: Scale) -> tuple[str, ...]:
    return "RoPE", *states(scale)


def _blocks(scale: Scale) -> tuple[str, ...]:
    return "RoPE", *SSMS[scale], *blocks(scale)


def _item(
    name: str, title: str, shows: str, part: str, task: TaskName, models: Models, claims: tuple[Claim, ...]
) -> Item:
    """An item that shows accuracy against training examples."""
    return Item(
        name,
        title,
        shows,
        draw(title),
        _studies(part, task, models),
        claims,
        differs("position" if task == "position" else "ngram"),
        ("curves",),
    )


FIG3A = _item(
    "fig3a", "N-gram retrieval: data efficiency", "hybrids need the fewest examples, then RoPE, then SSMs and NoPE", "ngram",
    "suffix", families, needed.FIG3A,
)  # fmt: skip
FIG3B = _item(
    "fig3b", "N-gram retrieval: size of the state", "more state helps, and is not enough to pass RoPE", "ngram-states", "suffix",
    _with_references, needed.FIG3B,
)  # fmt: skip
FIG3C = _item(
    "fig3c", "N-gram retrieval: SSM layers to a Transformer layer", "up to three SSM layers to one pass RoPE", "ngram-blocks",
    "suffix", _blocks, needed.FIG3C,
)  # fmt: skip
FIG7A = _item(
    "fig7a", "Position retrieval: data efficiency", "RoPE first, hybrids and NoPE later, SSMs not at all", "position", "position",
    families, needed.FIG7A,
)  # fmt: skip
FIG7B = _item(
    "fig7b", "Position retrieval: size of the state", "no size of the state suffices", "position-states", "position",
    _with_references, needed.FIG7B,
)  # fmt: skip
FIG7C = _item(
    "fig7c", "Position retrieval: SSM layers to a Transformer layer", "more Transformer layers, fewer examples",
    "position-blocks", "position", _blocks, needed.FIG7C,
)  # fmt: skip
FIG19 = _item(
    "fig19", "Position retrieval: reverse gating (left)", "with the gate on the Mamba stream a two-stream model learns sooner",
    "position-reverse", "position", lambda scale: ("RoPE", "2S-M2", "2SR-M2"), needed.FIG19,
)  # fmt: skip
