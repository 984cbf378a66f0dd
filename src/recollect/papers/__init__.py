"""The papers, item by item: each figure or table is a study at three scales, a drawing and the claims it stands for."""

import importlib
from typing import TYPE_CHECKING

from recollect.spec import SpecError, nearest

if TYPE_CHECKING:
    from recollect.papers.item import Paper

PAPERS = ("okpekpe2025", "retrievit2026", "zoology2024", "jelassi2024")


def paper(name: str) -> "Paper":
    """The paper of that name."""
    if name not in PAPERS:
        raise SpecError(f"unknown paper {name!r}: {nearest(name, PAPERS)}")
    return importlib.import_module(f"recollect.papers.{name}").PAPER
