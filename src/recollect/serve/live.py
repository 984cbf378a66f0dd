"""Reads stores that are being written, merged, moved or damaged: what can be read, and in words what cannot."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from recollect.serve.atlas import atlas_runs, other_setting
from recollect.spec import UserError
from recollect.store.frames import curves_frame, field_columns, runs_frame, slices_frame
from recollect.store.progress import ConfigurationProgress, progress
from recollect.store.records import Failure
from recollect.store.store import Store
from recollect.views import VIEWS
from recollect.views.base import Choice, Frames, prepared
from recollect.views.curves import at_rate
from recollect.views.frame import Frame

BROKEN = (UserError, OSError, ValueError, KeyError, TypeError)
"""What reading a store that is written, moved or damaged meanwhile may raise."""
PATIENCE, LONGEST = 4.0, 20.0
"""A store is read again only after so many times the seconds that reading it took, but after so many seconds in any case."""
WATCHED = 120.0
"""Seconds of progress that the time left is judged by."""
COMPARED = 40
"""Configurations of a study whose setting is compared with the atlas's, at most."""


@dataclass
class _Watched:
    """A store, what was read of it, and when."""

    path: Path
    label: str
    """What distinguishes it from the other stores; empty where it is the only one."""
    version: str = ""
    looked: float = 0.0
    took: float = 0.0
    kept: dict[tuple, Any] = field(default_factory=dict)
    problem: str = ""

    def title(self, study: str) -> str:
        """What a study of it is called."""
        return f"{study} ({self.label})" if self.label else study


class Live:
    """Some stores and the shipped atlas. A study is known by its title: its name, and that of its store if there are several."""

    def __init__(self, paths: Sequence[Path]):
        self.paths = list(paths)
        names = [path.name for path in paths]
        labels = [name if names.count(name) == 1 else str(path) for path, name in zip(paths, names, strict=True)]
        several = len(paths) > 1
        self._stores = [_Watched(path, label if several else "") for path, label in zip(paths, labels, strict=True)]
        self._lock = threading.RLock()
        self._seen: dict[tuple[str, ...], deque[tuple[float, int]]] = {}
        self._offered: dict[tuple[str, ...], tuple[Any, dict[str, Choice]]] = {}

    def version(self) -> str:
        """A text that changes when a store does."""
        return "|".join(self._look(watched) for watched in self._stores)

    def problems(self) -> list[str]:
        """What could not be read, in words."""
        return [watched.problem for watched in self._stores if watched.problem]

    def studies(self) -> list[str]:
        """The titles of the studies that there are; those of the atlas come first, the newest last."""
        return [*atlas_runs(), *self._where()]

    def frames(self, studies: Sequence[str], needs: Sequence[str] = ("runs",), rate: str = "best") -> Frames:
        """The frames of these studies, those of unfinished runs too. Of curves, those at a learning rate, at the `best` of each
        configuration, or `all`; slices are of the runs at the best rates."""
        runs = [self._runs(study) for study in studies]
        rest = {
            kind: _joined([self._points(study, kind, rate) for study in studies], unique=True)
            for kind in ("curves", "slices")
            if kind in needs
        }
        return Frames(_joined(runs), **rest)

    def offered(self, view: str, studies: Sequence[str]) -> dict[str, Choice]:
        """What can be chosen of a view of these studies, by name, whatever a filter keeps of their runs."""
        key, version = (view, *studies), tuple(watched.version for watched in self._stores)
        if self._offered.get(key, ("",))[0] != version:
            found = VIEWS.find(view)()
            choices = found.choices(self.frames(studies, found.needs))
            self._offered[key] = version, {choice.name: choice for choice in choices}
        return self._offered[key][1]

    def notes(self, studies: Sequence[str]) -> str:
        """What a reader has to know of the studies chosen: which of the atlas were trained in another setting than the others."""
        pairs = [
            (own, atlas) for atlas in studies if atlas in atlas_runs() for own in studies if own not in atlas_runs()
        ]
        return " ".join(
            f"{atlas} was trained in another setting than {own}: compare them with care."
            for own, atlas in pairs
            if self._differs(own, atlas)
        )

    def progress(self, studies: Sequence[str]) -> list[ConfigurationProgress]:
        """How far each configuration of these studies is."""
        return [part for study in studies for part in self._of(study, "progress", progress, [])]

    def failures(self, studies: Sequence[str]) -> list[tuple[Failure, str | None]]:
        """Attempts that failed, and how the run ended in the end."""

        def read(store: Store, name: str) -> list[tuple[Failure, str | None]]:
            own = set(store.studies().get(name, ()))
            found = [failure for failure in store.failures() if failure.run in own]
            done = store.done() if found else {}
            return [(failure, done.get(failure.run)) for failure in found]

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

    def _where(self) -> dict[str, tuple[_Watched, str]]:
        """The store and the name of each study, by its title."""
        return {
            watched.title(name): (watched, name)
            for watched in self._stores
            for name in self._read(watched, ("studies",), lambda store: list(store.studies()), [])
        }

    def _runs(self, study: str) -> Frame:
        def read(store: Store, name: str) -> Frame:
            return prepared(runs_frame(store, name, unfinished=True).assign(study=study))

        return atlas_runs().get(study) if study in atlas_runs() else self._of(study, "runs", read, pd.DataFrame())

    def _differs(self, study: str, atlas: str) -> bool:
        """Whether a study has runs, and all of them were trained in another setting than a study of the atlas."""
        runs = self._runs(study)
        some = [] if runs.empty else runs.drop_duplicates("configuration")["id"].tolist()[:COMPARED]
        return bool(some) and self._of(
            study, f"setting {atlas}", lambda store, _: other_setting(store, some, atlas), False
        )

    def _points(self, study: str, kind: str, rate: str) -> Frame:
        """The curves or slices of the runs of a study at a learning rate: reading those of all takes seconds in a large store."""

        def read(store: Store, name: str) -> Frame:
            runs = self._runs(study)
            ids = None if rate == "all" else [] if runs.empty else at_rate(runs, rate)["id"].tolist()
            if kind == "slices":
                return slices_frame(store, runs=ids)
            return curves_frame(store, name if ids is None else None, unfinished=True, runs=ids)

        rate = "best" if kind == "slices" else rate
        return self._of(study, f"{kind} {rate}", read, pd.DataFrame())

    def _of(self, study: str, kind: str, make: Callable[[Store, str], Any], otherwise: Any) -> Any:
        watched, name = self._where().get(study, (None, ""))
        if watched is None:
            return otherwise
        return self._read(watched, (kind, name), lambda store: make(store, name), otherwise)

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
        """The store's version; where it has changed, what was read before is dropped. A store that takes long to read is checked
        less often."""
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
    """The frames as one. A run is drawn once for each study that has it; `unique`: its points are there once. Runs that lack a
    field, as those of an older version, differ from no other in it."""
    some = [frame for frame in frames if len(frame)]
    if len(some) < 2:
        return some[0] if some else pd.DataFrame()
    whole: Frame = pd.concat(some, ignore_index=True)
    if unique:
        key = [name for name in ("run", "step", "tag", "value") if name in whole]
        return whole.drop_duplicates(key, ignore_index=True)
    partial = [name for name in field_columns(whole) if any(name not in frame for frame in some)]
    same = {name: whole[name].ffill().bfill() for name in partial if whole[name].nunique() == 1}
    return whole.assign(**same)
