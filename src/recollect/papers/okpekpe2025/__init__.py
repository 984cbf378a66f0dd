"""Okpekpe & Orvieto, "Revisiting associative recall in modern recurrent models" (2025): every figure and table."""

from recollect.papers.item import Paper
from recollect.papers.okpekpe2025.ablations import TABLE2, TABLE3, TABLE4, VARIANTS
from recollect.papers.okpekpe2025.controls import FILLER, READINGS, STOPPING
from recollect.papers.okpekpe2025.copying import FIG5, TABLE1
from recollect.papers.okpekpe2025.decay import DECAY
from recollect.papers.okpekpe2025.depth import DEPTH
from recollect.papers.okpekpe2025.diagrams import FIG8
from recollect.papers.okpekpe2025.dynamics import FIG6
from recollect.papers.okpekpe2025.parameters import FIG4
from recollect.papers.okpekpe2025.settings import MINUTES
from recollect.papers.okpekpe2025.widths import FIG2, FIG3, FIG11, FIG12
from recollect.papers.okpekpe2025.windows import FIG1, FIG7
from recollect.sources.okpekpe2025 import SOURCE

PAPER = Paper(
    SOURCE.name,
    SOURCE.title,
    (FIG1, FIG2, FIG3, FIG4, FIG5, TABLE1, FIG6, TABLE2, TABLE3, TABLE4, FIG7, DEPTH, DECAY, FIG8, FIG11, FIG12, FILLER, STOPPING,
     READINGS, VARIANTS),
    unknown=SOURCE.unknown,
    minutes=MINUTES,
)  # fmt: skip
