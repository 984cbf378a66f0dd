"""What widens the window of learning rates? Our own study, in the form of a paper."""

from recollect.papers.item import Paper
from recollect.papers.widen2026.optimisers import BY_FACTOR, BY_OPTIMISER, GROUPS, OPTIMISERS
from recollect.papers.widen2026.training import BY_CHANGE, BY_CLIPPING, BY_LENGTH, CLIPPING, FACTORS, LENGTHS
from recollect.papers.widen2026.widths import WIDTHS

PAPER = Paper(
    "widen2026",
    "What widens the window of learning rates?",
    (OPTIMISERS, GROUPS, CLIPPING, FACTORS, LENGTHS, WIDTHS),
    ("tiny", "medium"),
)
WAYS = {
    OPTIMISERS.name: BY_OPTIMISER,
    GROUPS.name: BY_FACTOR,
    CLIPPING.name: BY_CLIPPING,
    FACTORS.name: BY_CHANGE,
    LENGTHS.name: BY_LENGTH,
}
"""The ways of training that each item compares by their windows."""
