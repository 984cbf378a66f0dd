"""Results as pandas frames."""

import json
from pathlib import Path

import pandas as pd
import safetensors.numpy

from recollect.spec import SpecError, nearest
from recollect.store.labels import labels
from recollect.store.store import Store, StoreError

TIMINGS = ("seconds", "ended", "device", "versions")
"""Columns that tell how a result was made, not what it is."""


def runs_frame(store: Store, study: str | None = None) -> pd.DataFrame:
    """One row a run that has ended: identity, what tells it apart, status, accuracies, every field, timings."""
    order = _order(store, study)
    columns = ["id", "model", "status", "step", "accuracy", "best_accuracy", "best_step", "final", "parameters",
               "seconds", "device", "versions", "notes", "ended"]  # fmt: skip
    rows = store.query(f"SELECT {', '.join(columns)}, spec FROM runs ORDER BY rowid")
    if order is not None:  # also so that columns come in one order, whichever run ended first
        rows = sorted((row for row in rows if row[0] in order), key=lambda row: order[row[0]])
    specs = [json.loads(row[-1]) for row in rows]
    records = []
    for row, spec, label in zip(rows, specs, labels([row[1] for row in rows], specs), strict=True):
        record = dict(zip(columns, row[:-1], strict=True))
        final = json.loads(record.pop("final"))
        record |= {f"final.{name}": value for name, value in final.items() if name != "accuracy"}
        records.append({"id": record.pop("id"), "configuration": label, **record, **_flat(spec)})
    return pd.DataFrame(records)


def curves_frame(store: Store, study: str | None = None) -> pd.DataFrame:
    """One row a run and measurement."""
    order = _order(store, study)
    rows = store.query("SELECT run, data FROM points ORDER BY run, step")
    return pd.DataFrame([{"run": run, **json.loads(data)} for run, data in rows if order is None or run in order])


def slices_frame(store: Store, study: str | None = None) -> pd.DataFrame:
    """One row a run, measurement, tag and value of the tag: how many were scored, how many were right."""
    order = _order(store, study)
    frames = []
    for run, step, tag, data in store.query("SELECT run, step, tag, data FROM slices ORDER BY run, step, tag"):
        if order is None or run in order:
            values = json.loads(data)
            frames.append(pd.DataFrame({"run": run, "step": step, "tag": tag, "value": values["values"],
                                        "count": values["counts"], "right": values["right"]}))  # fmt: skip
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def snapshots(store: Store, study: str | None = None) -> pd.DataFrame:
    """One row a run and snapshot of its embeddings: `share` of the run's own length, `step`, and the arrays `input` and
    `output` (tokens, width); `output` is None where the head is the embedding. Position retrieval: position tokens only.
    """
    order = _order(store, study)
    records = []
    for run, share, step, data in store.query("SELECT run, share, step, data FROM snapshots ORDER BY run, share"):
        if order is None or run in order:
            tables = {"input": None, "output": None} | safetensors.numpy.load(data)
            records.append({"run": run, "share": share, "step": step, **tables})
    return pd.DataFrame(records, columns=["run", "share", "step", "input", "output"])


def write(frame: pd.DataFrame, path: Path) -> None:
    """A frame as CSV, Parquet or JSON, by the file's ending."""
    writers = {".csv": lambda: frame.to_csv(path, index=False), ".parquet": lambda: frame.to_parquet(path),
               ".json": lambda: frame.to_json(path, orient="records", indent=1)}  # fmt: skip
    if path.suffix not in writers:
        raise SpecError(f"cannot write {path.name!r}: {nearest(path.suffix, writers)}")
    if not path.parent.is_dir():
        raise SpecError(f"cannot write {path}: there is no folder {path.parent}")
    writers[path.suffix]()


def _order(store: Store, study: str | None) -> dict[str, int] | None:
    if study is None:
        return None
    studies = store.studies()
    if study not in studies:
        raise StoreError(f"no study {study!r} in {store.path}: {nearest(study, studies)}")
    return {run: i for i, run in enumerate(studies[study])}


def _flat(spec: dict) -> dict:
    """The fields of a specification by dotted name; what is nested deeper than a mixer's options stays JSON."""
    flat = {}
    for part in ("task", "model", "train"):
        for name, value in spec[part].items():
            if name == "mixer":
                flat["model.mixer"] = value["kind"]
                flat |= {f"model.mixer.{option}": _cell(v) for option, v in value.items() if option != "kind"}
            else:
                flat[f"{part}.{name}"] = _cell(value)
    return flat


def _cell(value: object) -> object:
    """A value that fits a table: what is nested becomes JSON."""
    return (json.dumps(value) if value else None) if isinstance(value, dict | list) else value
