"""The papers, item by item: each figure or table is a study at several scales, a drawing and the claims it stands for."""

from typing import TYPE_CHECKING

from recollect.spec.registry import Registry

if TYPE_CHECKING:
    from recollect.papers.item import Paper

PAPERS: "Registry[Paper]" = Registry(
    "paper",
    group="recollect.papers",
    built_in={
        "okpekpe2025": "recollect.papers.okpekpe2025:PAPER",
        "retrievit2026": "recollect.papers.retrievit2026:PAPER",
        "zoology2024": "recollect.papers.zoology2024:PAPER",
        "jelassi2024": "recollect.papers.jelassi2024:PAPER",
        "statetracking2025": "recollect.papers.statetracking2025:PAPER",
        "mad2024": "recollect.papers.mad2024:PAPER",
        "kimi2025": "recollect.papers.kimi2025:PAPER",
        "widen2026": "recollect.papers.widen2026:PAPER",
    },
)
