"""The runs of a reproduction as files beside its pictures: all that is needed to draw and judge it again.

FOLDER/runs.csv             one row per run: its specification, status and results
FOLDER/curves.parquet       measurements during training of the runs that items use; slices and snapshots likewise
FOLDER/ITEM.measured.csv    what an item measured on trained models

Numbers of curves have six digits. Embeddings are kept as coordinates in the space that they span, which preserves every angle,
distance and principal component to three digits.
"""

import io
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from recollect.papers.item import FRAMES, Item, Paper, evidence_of
from recollect.papers.judge import Evidence, Scale
from recollect.spec import SpecError
from recollect.spec.output import written_whole
from recollect.store.frames import KEYS, field_columns, flat
from recollect.train.spec import RunSpec

RUNS = "runs.csv"
_TABLES = ("input", "output")
_UNSEEN = ["lr", "grad_norm", "test_answers", "test_rows"]
_LABEL = "configuration"
"""A name that depends on the other runs: it is not saved."""


def keep(paper: Paper, item: Item, evidence: Evidence, folder: Path) -> Evidence:
    """Save the evidence of an item, beside that of the paper's other items in the folder; return it as it will be read."""
    if not item.grids(evidence.scale):
        return evidence
    folder.mkdir(parents=True, exist_ok=True)
    known = {
        run.id for one in paper.items for run in one.runs(evidence.scale)
    }  # a folder may have runs of an older version
    runs = evidence.runs.drop(columns=_LABEL, errors="ignore")
    text = pd.concat([_but(_read_text(folder / RUNS), "id", runs, known), _as_text(runs)]).fillna("")
    with written_whole(folder / RUNS) as draft:
        text.to_csv(draft, index=False)
    seen = set(paper.looks_at(evidence)) if paper.looks_at else set(runs["id"])
    for which in item.needs:
        frame, path = getattr(evidence, which), folder / f"{which}.parquet"
        new = _packed(frame.loc[frame["run"].isin(seen)]) if len(frame) else frame
        old = pd.read_parquet(path) if path.exists() else pd.DataFrame(columns=["run"])
        parts = [part for part in (_but(old, "run", new, known), new) if len(part)]
        if parts:
            all_runs = pd.concat(parts, ignore_index=True)
            with written_whole(path) as draft:
                all_runs.to_parquet(draft, compression="zstd", index=False)
    if len(evidence.measured):
        with written_whole(folder / f"{item.name}.measured.csv") as draft:
            evidence.measured.to_csv(draft, index=False)
    return kept(item, evidence.scale, folder)


def kept(item: Item, scale: Scale, folder: Path) -> Evidence:
    """The evidence on an item that a folder has."""
    if not item.grids(scale):
        return evidence_of(item, scale)
    if not (folder / RUNS).exists():
        raise SpecError(f"no runs in {folder}: there is no {RUNS}")
    places = {run.id: place for place, run in enumerate(item.runs(scale))}
    text = _read_text(folder / RUNS)
    text = text.loc[text["id"].isin(places)].sort_values("id", key=lambda ids: ids.map(places.__getitem__))
    found: dict[str, pd.DataFrame] = {"runs": _parsed(_with_all_fields(text, item.runs(scale)))}
    for which in item.needs:
        path, order = folder / f"{which}.parquet", KEYS[FRAMES[which]]
        if not path.exists():
            continue
        frame = pd.read_parquet(path)
        frame = frame.loc[frame["run"].isin(places)].sort_values(order, kind="stable", ignore_index=True)
        found[which] = _unpacked(frame.dropna(axis=1, how="all"))
    measured = folder / f"{item.name}.measured.csv"
    if measured.exists():
        found["measured"] = pd.read_csv(measured)
    return evidence_of(item, scale, **found)


def kept_ids(items: Iterable[Item], scale: Scale, folder: Path) -> set[str]:
    """The ids of the runs that a folder has with all that these items need of them: they need not be trained again."""
    ids = set(_read_text(folder / RUNS)["id"])
    for item in items:
        own = {run.id for run in item.runs(scale)} if ids else set()
        if item.measure is not None:  # needs the trained models
            ids -= own
        for which in item.needs if ids else ():
            path = folder / f"{which}.parquet"
            ids -= own - (set(pd.read_parquet(path, columns=["run"])["run"]) if path.exists() else set())
    return ids


def _with_all_fields(text: pd.DataFrame, runs: Sequence[RunSpec]) -> pd.DataFrame:
    """The rows with every field that a specification has now: runs that were kept before a field existed have its default."""
    present = set(text["id"])
    fields = _as_text(
        pd.DataFrame([{"id": run.id} | flat(run.model_dump(mode="json")) for run in runs if run.id in present])
    )
    return text.drop(columns=field_columns(text)).merge(fields, on="id") if len(text) else text


def _but(old: pd.DataFrame, column: str, new: pd.DataFrame, known: Collection[str]) -> pd.DataFrame:
    """The old rows without the runs that are new, and without those that the paper no longer has."""
    again = set(new[column]) if len(new) else set()
    return old.loc[[run in known and run not in again for run in old[column]]]


def _read_text(path: Path) -> pd.DataFrame:
    """A table whose cells stay text: a column may be a number in the runs of one item and a word in those of another."""
    return pd.read_csv(path, dtype=str, keep_default_na=False) if path.exists() else pd.DataFrame(columns=["id"])


def _as_text(frame: pd.DataFrame) -> pd.DataFrame:
    return (
        pd.read_csv(io.StringIO(frame.to_csv(index=False)), dtype=str, keep_default_na=False) if len(frame) else frame
    )


def _parsed(text: pd.DataFrame) -> pd.DataFrame:
    """The same with numbers where a column has numbers; without columns that are empty for all runs."""
    always = {"accuracy", "best_accuracy"}
    text = text.loc[:, [name in always or any(text[name] != "") for name in text]]
    if text.empty:
        return pd.DataFrame()
    frame = pd.read_csv(io.StringIO(text.to_csv(index=False)), dtype={"id": str})
    return frame.astype(dict.fromkeys(always & set(frame), float))


def _packed(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame as Parquet takes it, without the columns of curves that no item uses, rounded to six digits."""
    columns: dict[str, Any] = {}
    for name in frame.columns.difference(_UNSEEN, sort=False):
        if name in _TABLES:
            columns[name] = [None if x is None else _spanned(x).tobytes() for x in frame[name]]
        elif frame[name].dtype.kind == "f":
            columns[name] = [float(f"{x:.6g}") for x in frame[name]]
        else:
            columns[name] = frame[name].to_numpy()
    if "input" in frame:
        columns["tokens"] = [len(x) for x in frame["input"]]
    return pd.DataFrame(columns)


def _spanned(x: np.ndarray) -> np.ndarray:
    """Rows of an embedding (tokens, width) as coordinates in an orthonormal basis of the space they span, in 16 bits each."""
    return np.linalg.qr(np.asarray(x, float).T)[1].T.astype(np.float16)


def _unpacked(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame that was packed, with arrays for embeddings."""
    if "tokens" not in frame:
        return frame

    def arrays(name: str) -> pd.Series:
        given = frame[name] if name in frame else [None] * len(frame)  # no head of these may have embeddings of its own
        pairs = zip(given, frame["tokens"], strict=True)
        made = [
            np.frombuffer(x, np.float16).reshape(n, -1).astype(np.float32) if isinstance(x, bytes) else None
            for x, n in pairs
        ]
        return pd.Series(made, index=frame.index, dtype=object)

    return frame.drop(columns="tokens").assign(**{name: arrays(name) for name in _TABLES})
