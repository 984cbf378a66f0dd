"""Reads stores that are being written, merged, moved or damaged: what can be read, and in words what cannot."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from recollect.spec import UserError
from recollect.store.frames import curves_frame, runs_frame, slices_frame
from recollect.store.progress import ConfigurationProgress, progress
from recollect.store.records import Failure
from recollect.store.store import Store
from recollect.views.base import Frames, prepared
from recollect.views.frame import Frame

BROKEN = (UserError, OSError, ValueError, KeyError, TypeError)
"""What reading a store that is written, moved or damaged meanwhile may raise."""
PATIENCE, LONGEST = 4.0, 20.0
"""A store is read again only after so many times the seconds that reading it took, but after so many seconds in any case."""
WATCHED = 120.0
"""Seconds of progress that the time left is judged by."""


@dataclass
class _Watched:
    """A store, what was read of it, and when."""

    path: Path
    version: str = ""
    looked: float = 0.0
    took: float = 0.0
    kept: dict[tuple, Any] = field(default_factory=dict)
    problem: str = ""


class Live:
    """Some stores. A study is known by `number of the store/name`."""

    def __init__(self, paths: Sequence[Path]):
        self._stores = [_Watched(Path(path)) for path in paths]
        self._lock = threading.RLock()
        self._seen: dict[tuple[str, ...], deque[tuple[float, int]]] = {}

    def version(self) -> str:
        """A text that changes when a store does."""
        return "|".join(self._look(watched) for watched in self._stores)

    def problems(self) -> list[str]:
        """What could not be read, in words."""
        return [watched.problem for watched in self._stores if watched.problem]

    def studies(self) -> dict[str, str]:
        """The studies that there are, and what they are called."""
        found = {}
        for number, watched in enumerate(self._stores):
            names = self._read(watched, ("studies",), lambda store: list(store.studies()), [])
            found |= {f"{number}/{name}": self._title(number, name) for name in names}
        return found

    def frames(self, studies: Sequence[str], needs: Sequence[str] = ("runs",)) -> Frames:
        """The frames of these studies, those of unfinished runs too."""
        runs = [self._runs(study) for study in studies]
        readers: dict[str, Callable[[Store, str], Frame]] = {
            "curves": lambda store, name: curves_frame(store, name, unfinished=True),
            "slices": slices_frame,
        }
        rest = {
            kind: _joined([self._of(study, kind, read, pd.DataFrame()) for study in studies], unique=True)
            for kind, read in readers.items()
            if kind in needs
        }
        return Frames(_joined(runs), **rest)

    def progress(self, studies: Sequence[str]) -> list[ConfigurationProgress]:
        """How far each configuration of these studies is."""
        return [part for study in studies for part in self._of(study, "progress", progress, [])]

    def failures(self, studies: Sequence[str]) -> list[tuple[Failure, str | None]]:
        """Attempts that failed, and how the run ended in the end."""

        def read(store: Store, name: str) -> list[tuple[Failure, str | None]]:
            own, done = set(store.studies().get(name, ())), store.done()
            return [(failure, done.get(failure.run)) for failure in store.failures() if failure.run in own]

        return [failure for study in studies for failure in self._of(study, "failures", read, [])]

    def time_left(self, studies: Sequence[str]) -> float | None:
        """Seconds that training will take at the speed that was seen; None where that is not known yet."""
        parts, now = self.progress(studies), time.monotonic()
        total, done = sum(part.steps for part in parts), sum(part.steps_done for part in parts)
        if not total:
            return None
        seen = self._seen.setdefault(tuple(studies), deque())
        if not seen or seen[-1][1] != done:
            seen.append((now, done))
        while len(seen) > 2 and now - seen[0][0] > WATCHED:
            seen.popleft()
        (since, before), (last, _) = seen[0], seen[-1]
        if done <= before or now - since < 5 or now - last > WATCHED:
            return None
        return (total - done) * (now - since) / (done - before)

    def _title(self, number: int, name: str) -> str:
        return name if len(self._stores) == 1 else f"{name} ({self._stores[number].path.name})"

    def _runs(self, study: str) -> Frame:
        def read(store: Store, name: str) -> Frame:
            title = self._title(int(study.partition("/")[0]), name)
            return prepared(runs_frame(store, name, unfinished=True).assign(study=title))

        return self._of(study, "runs", read, pd.DataFrame())

    def _of(self, study: str, kind: str, make: Callable[[Store, str], Any], otherwise: Any) -> Any:
        number, _, name = study.partition("/")
        if not number.isdigit() or int(number) >= len(self._stores):
            return otherwise
        return self._read(self._stores[int(number)], (kind, name), lambda store: make(store, name), otherwise)

    def _read(self, watched: _Watched, key: tuple, make: Callable[[Store], Any], otherwise: Any) -> Any:
        """What is kept of this version of a store, or else read now."""
        with self._lock:
            if key not in watched.kept:
                began = time.monotonic()
                try:
                    watched.kept[key] = make(Store(watched.path))
                    watched.problem = ""
                except BROKEN as error:
                    watched.problem = f"{watched.path} cannot be read now: {error}"
                    watched.kept[key] = otherwise
                watched.took += time.monotonic() - began
            return watched.kept[key]

    def _look(self, watched: _Watched) -> str:
        """The store's version: what was kept is let go of where it has changed. One that takes long is looked at more rarely."""
        with self._lock:
            if time.monotonic() - watched.looked < min(PATIENCE * watched.took, LONGEST):
                return watched.version
            parts = []
            for ending in ("", "-wal"):
                try:
                    state = Path(f"{watched.path}{ending}").stat()
                    parts.append(f"{state.st_ino}.{state.st_mtime_ns}.{state.st_size}")
                except OSError:
                    parts.append("none")
            if (version := " ".join(parts)) != watched.version:
                watched.version, watched.looked, watched.took = version, time.monotonic(), 0.0
                watched.kept.clear()
            return watched.version


def _joined(frames: list[Frame], unique: bool = False) -> Frame:
    """The frames as one. A run is drawn once for each study that has it; `unique`: its points are there once."""
    some = [frame for frame in frames if len(frame)]
    if len(some) < 2:
        return some[0] if some else pd.DataFrame()
    whole = pd.concat(some, ignore_index=True)
    key = [name for name in ("run", "step", "tag", "value") if name in whole]
    return whole.drop_duplicates(key, ignore_index=True) if unique else whole
