"""What widens the window of learning rates? Our own study, in the form of a paper."""

from recollect.papers.item import Paper
from recollect.papers.widen2026 import training
from recollect.papers.widen2026.training import CLIPPING, FACTORS, GROUPS, LENGTHS, OPTIMISERS
from recollect.papers.widen2026.widths import WIDTHS

PAPER = Paper(
    "widen2026",
    "What widens the window of learning rates?",
    (OPTIMISERS, GROUPS, CLIPPING, FACTORS, LENGTHS, WIDTHS),
    ("tiny", "medium"),
)
WAYS = {
    OPTIMISERS.name: training.BY_OPTIMISER,
    GROUPS.name: training.BY_FACTOR,
    CLIPPING.name: training.BY_CLIPPING,
    FACTORS.name: training.BY_CHANGE,
    LENGTHS.name: training.BY_LENGTH,
}
"""The ways of training that each item compares by their windows."""
