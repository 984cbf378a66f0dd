"""Okpekpe & Orvieto, "Revisiting associative recall in modern recurrent models" (2025): every figure and table."""

from recollect.papers.item import Paper
from recollect.papers.okpekpe2025.ablations import FIG8, TABLE2, TABLE3, TABLE4, VARIANTS
from recollect.papers.okpekpe2025.controls import FILLER, STOPPING
from recollect.papers.okpekpe2025.copying import FIG5, TABLE1
from recollect.papers.okpekpe2025.decay import DECAY
from recollect.papers.okpekpe2025.dynamics import FIG6
from recollect.papers.okpekpe2025.readings import READINGS
from recollect.papers.okpekpe2025.sizes import DEPTH, FIG4
from recollect.papers.okpekpe2025.widths import FIG2, FIG3, FIG11, FIG12
from recollect.papers.okpekpe2025.windows import FIG1, FIG7
from recollect.sources.okpekpe2025 import SOURCE

MINUTES = {
    **dict.fromkeys(("fig1", "fig2", "fig11", "stopping"), 9.7), **dict.fromkeys(("fig3", "fig12"), 9.4), "fig4": 4.5,
    **dict.fromkeys(("fig5", "table1"), 9.7), "fig6": 7.8, **dict.fromkeys(("table2", "table3"), 8.6), "table4": 6.8,
    "fig7": 7.8, "decay": 9.4, "depth": 4.5, "filler": 6.7, "readings": 8.4, "variants": 2.4, "all": 65.0,
}  # fmt: skip
"""Minutes of each item at `tiny` on two cores (AMD EPYC, one thread each): computed from the time of a training step of each
shape, as if no run ended early; those of Figure 1, `filler` and `readings` with the steps that their runs took."""
PAPER = Paper(
    SOURCE.name,
    SOURCE.title,
    (FIG1, FIG2, FIG3, FIG4, FIG5, TABLE1, FIG6, TABLE2, TABLE3, TABLE4, FIG7, DEPTH, DECAY, FIG8, FIG11, FIG12, FILLER, STOPPING,
     READINGS, VARIANTS),
    unknown=SOURCE.unknown,
    minutes=MINUTES,
)  # fmt: skip
