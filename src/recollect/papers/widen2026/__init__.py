"""What widens the window of learning rates? Our own study, in the form of a paper."""

from recollect.papers.item import Paper
from recollect.papers.widen2026.optimisers import GROUPS, OPTIMISERS
from recollect.papers.widen2026.training import CLIPPING, FACTORS, LENGTHS
from recollect.papers.widen2026.widths import WIDTHS

PAPER = Paper(
    "widen2026",
    "What widens the window of learning rates?",
    (OPTIMISERS, GROUPS, CLIPPING, FACTORS, LENGTHS, WIDTHS),
    ("tiny", "medium"),
)
