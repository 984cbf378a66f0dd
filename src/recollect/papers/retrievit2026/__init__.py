"""Pantazopoulos et al., "Retrievit: In-context Retrieval Capabilities of Transformers, State Space Models, and Hybrid
Architectures" (2026): every figure and table, and our own controls (`tying`, `residual`)."""

from recollect.papers.item import Paper
from recollect.papers.retrievit2026.duplicates import FIG5, FIG6, FIG14, FIG15, FIG16
from recollect.papers.retrievit2026.efficiency import FIG3A, FIG3B, FIG3C, FIG7A, FIG7B, FIG7C, FIG19
from recollect.papers.retrievit2026.embeddings import FIG9, FIG20
from recollect.papers.retrievit2026.extrapolation import FIG4B, FIG4C, FIG12, RESIDUAL
from recollect.papers.retrievit2026.locality import FIG10, FIG11, FIG21, FIG22
from recollect.papers.retrievit2026.positions import FIG8, FIG13, FIG17, FIG18, FIG19_RIGHT
from recollect.papers.retrievit2026.shown import FIG1, FIG2, FIG4A, TABLE1, TABLE2
from recollect.papers.retrievit2026.tying import TYING
from recollect.papers.retrievit2026.view import view
from recollect.sources.retrievit2026 import SOURCE

PAPER = Paper(
    SOURCE.name,
    SOURCE.title,
    (
        FIG1, FIG2, TABLE1, TABLE2, FIG3A, FIG3B, FIG3C, FIG4A, FIG4B, FIG4C, FIG5, FIG6, FIG7A, FIG7B, FIG7C, FIG8, FIG9, FIG10,
        FIG11, FIG12, FIG13, FIG14, FIG15, FIG16, FIG17, FIG18, FIG19, FIG19_RIGHT, FIG20, FIG21, FIG22, TYING, RESIDUAL,
    ),
    unknown=SOURCE.unknown,
    minutes={"all": 31.0},  # 59 measured, with more than twice the steps of n-gram retrieval; the rest by operations
    looks_at=lambda evidence: view(evidence)["id"],
)  # fmt: skip
