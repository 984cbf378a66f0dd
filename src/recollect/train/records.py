"""What is recorded of each run of a cohort while it trains."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from recollect.train.embeddings import Album

if TYPE_CHECKING:
    from recollect.train.checkpoint import Header


class Records:
    """Curves, accuracy by tag, seconds and embeddings, one entry per run in training; and notes that concern all of them."""

    def __init__(self, runs: int, album: Album):
        self.curves: list[list[dict[str, float]]] = [[] for _ in range(runs)]
        self.slices: list[list[dict]] = [[] for _ in range(runs)]
        self.seconds = [0.0] * runs
        self.notes: list[str] = []
        self.album = album
        self._clock = time.perf_counter()

    def keep(self, stay: Sequence[int]) -> None:
        """Drop what belongs to the other runs."""
        for name in ("curves", "slices", "seconds"):
            setattr(self, name, [getattr(self, name)[i] for i in stay])
        self.album.select(stay)

    def charge(self) -> None:
        """Share the time since the last call among the runs."""
        now = time.perf_counter()
        self.seconds = [spent + (now - self._clock) / len(self.seconds) for spent in self.seconds]
        self._clock = now

    def data(self) -> dict:
        """All but the embeddings, as JSON holds it."""
        return {"curves": self.curves, "slices": self.slices, "seconds": self.seconds, "notes": self.notes}

    def restore(self, header: "Header", rows: Sequence[int]) -> None:
        """Continue from these rows of a snapshot's header, which has what `data` returned."""
        for name in ("curves", "slices", "seconds"):
            setattr(self, name, [getattr(header, name)[i] for i in rows])
        self.notes = header.notes
