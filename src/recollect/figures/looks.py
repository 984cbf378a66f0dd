"""The look and the name of a line. Both belong to the mixer, so that it looks the same in every picture."""

import itertools
from collections.abc import Sequence
from typing import Any

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
"""Okabe & Ito's palette, in an order whose neighbours differ in lightness too."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (7, 2, 1, 2)))
WRITTEN = {
    "attention": "Attention", "hyena": "Hyena", "mamba": "Mamba", "deltanet": "DeltaNet", "mamba2": "Mamba-2", "h3": "H3",
    "rwkv": "RWKV-4", "based": "Based", "gated_deltanet": "Gated DeltaNet", "gla": "GLA", "linear_attention": "Linear attention",
    "s6": "S6", "retnet": "RetNet", "base_conv": "BaseConv", "rwkv6": "RWKV-6", "rwkv7": "RWKV-7", "lstm": "LSTM",
    "deltaproduct": "DeltaProduct", "kda": "KDA", "gated_deltanet2": "Gated DeltaNet-2", "mamba3": "Mamba-3", "lru": "LRU",
}  # fmt: skip
"""Mixers as people write them; their order is that of their looks."""
ALL_COLOURS = (
    *COLOURS, "#332288", "#117733", "#882255", "#44AA99", "#999933", "#661100", "#AA4499", "#88CCEE", "#DDCC77", "#EE3377",
    "#6699CC", "#997700", "#994455", "#BBBBBB",
)  # fmt: skip
"""Okabe & Ito's palette, then Tol's muted one and some of his others: the most common mixers have the most distinct
colours."""


def written(label: str) -> str:
    """A label with its mixer as people write it: `mamba2, width 64` gives `Mamba-2, width 64`."""
    mixer, rest = _split(label)
    return WRITTEN.get(mixer, mixer) + (f" {rest}" if rest.startswith("(") and mixer in WRITTEN else rest)


def look(i: int) -> dict[str, Any]:
    """Colour, marker and dashes number i; marker and dashes of the first 56 differ without colour too."""
    return {"color": ALL_COLOURS[i % len(ALL_COLOURS)], "marker": MARKERS[i % 8], "linestyle": DASHES[i % 7]}


def looks(labels: Sequence[object]) -> dict[object, dict[str, Any]]:
    """The look of each label: the first label that a mixer has in a picture gets the mixer's own, others the next ones free."""
    order, numbers = list(WRITTEN), dict[object, int]()
    for label in labels:
        mixer = _split(str(label))[0]
        if mixer in WRITTEN and order.index(mixer) not in numbers.values():
            numbers[label] = order.index(mixer)
    free = (i for i in itertools.count() if i not in set(numbers.values()))
    rest = {label: next(free) for label in labels if label not in numbers}
    return {label: look((numbers | rest)[label]) for label in labels}


def mixer_of(label: object) -> str:
    """The mixer that a label names first: what a line's colour belongs to."""
    return _split(str(label))[0]


def _split(label: str) -> tuple[str, str]:
    """The first word of a label, and what follows it."""
    end = next((i for i, letter in enumerate(label) if not (letter.isalnum() or letter == "_")), len(label))
    return label[:end], label[end:]
