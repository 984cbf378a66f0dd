"""The papers, item by item: each figure or table is a study at several scales, a drawing and the claims it stands for."""

from typing import TYPE_CHECKING

from recollect.spec.registry import Registry

if TYPE_CHECKING:
    from recollect.papers.item import Paper

_BUILT_IN = (
    "okpekpe2025", "retrievit2026", "zoology2024", "jelassi2024", "statetracking2025", "mad2024", "kimi2025", "widen2026",
)  # fmt: skip
PAPERS: "Registry[Paper]" = Registry(
    "paper", group="recollect.papers", built_in={name: f"{__name__}.{name}:PAPER" for name in _BUILT_IN}
)
