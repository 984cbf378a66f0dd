"""Results of studies that a store has, without their being run or any model being loaded."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from recollect.analysis.columns import where
from recollect.analysis.rates import at_best
from recollect.analysis.summary import summary as of_frames
from recollect.analysis.window import THRESHOLD
from recollect.spec import SpecError
from recollect.spec.reading import read_yaml
from recollect.store.frames import curves_frame, runs_frame
from recollect.store.store import Store


def threshold_of(store: Store, study: str | None) -> float:
    """The accuracy that counts as solved: that of the study's search, where it names one."""
    source = read_yaml(store.study_source(study)) if study else None
    search = source.get("search") if isinstance(source, dict) else None
    threshold = search.get("threshold") if isinstance(search, dict) else None
    return float(threshold) if isinstance(threshold, int | float) else THRESHOLD


def summary(
    store: Store | str | Path, study: str | None = None, threshold: float | None = None, conditions: Sequence[str] = ()
) -> pd.DataFrame:
    """One row per configuration of a study, or of all runs of the store: best rate, accuracy, window with its interval, steps to
    learn, state size, parameters (analysis/summary.py). `conditions` choose runs: `width = 64`."""
    store = store if isinstance(store, Store) else Store(store)
    runs = runs_frame(store, study)
    if runs.empty or (runs := where(runs, conditions)).empty:
        return pd.DataFrame()
    curves = curves_frame(store, runs=list(runs.loc[at_best(runs), "id"]))
    return of_frames(runs, curves, threshold_of(store, study) if threshold is None else threshold)


def one_side(name: str, store: Path) -> tuple[str, pd.DataFrame]:
    """Runs by a word: a study of the store, a store's file (all of its runs), or FILE:STUDY. Returns what to call them, too."""
    path, _, study = name.partition(":")
    if Path(path).is_file():
        found, label = runs_frame(Store(path), study or None), f"{Path(path).name}:{study}" if study else path
    else:
        found, label = runs_frame(Store(store), name), name
    if found.empty:
        raise SpecError(f"{name}: no run of it has ended yet")
    return label, found
