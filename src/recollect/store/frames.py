"""Results as pandas frames."""

import heapq
import json
import re
from collections.abc import Callable, Sequence
from functools import wraps
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, TextIO

import numpy as np
import pandas as pd
import safetensors.numpy
from pandas.api.types import is_numeric_dtype

from recollect.spec import SpecError, nearest
from recollect.spec.output import written_whole
from recollect.store.files import read_errors
from recollect.store.labels import labels
from recollect.store.records import check_provenance, mappings, measures
from recollect.store.store import Store

P = ParamSpec("P")
_PARTS = ("task", "model", "train")
_NUMBERS = ("step", "accuracy", "best_accuracy", "best_step", "parameters", "state_size", "seconds", "semantics")
"""Columns that may be empty for every run, and are numbers even so."""
_TEXTS = ("id", "configuration", "model", "status", "device", "versions", "notes", "ended")
_RUN = ("lr", "seed")
"""Fields of `train` in which runs of one configuration differ."""
_RATE_AND_SEED = re.compile(r'"train":\{"lr":([^,}]+),"seed":(\d+),')
"""Both, as a specification starts with them."""
_OUTCOMES = ("status", "step", "accuracy", "best_accuracy", "state_size", "parameters", "seconds")
_NAMES = ("id", "model", "status", "step", "accuracy", "best_accuracy", "best_step", "final", "parameters", "state_size",
          "seconds", "device", "versions", "notes", "ended", "semantics", "spec")  # fmt: skip
_UNFINISHED = """
SELECT training.run AS id, model, 'training' AS status, newest AS step, last.accuracy, best AS best_accuracy,
    NULL AS best_step, '{}' AS final, NULL AS parameters, NULL AS state_size, NULL AS seconds, NULL AS device,
    NULL AS versions, '[]' AS notes, NULL AS ended, NULL AS semantics, spec FROM training
JOIN (SELECT run, max(step) AS newest, max(accuracy) AS best FROM training_points GROUP BY run) so_far USING (run)
JOIN training_points last ON last.run = training.run AND last.step = newest
"""
"""Runs in training, with the columns of those that have ended: the last accuracy, and the best so far."""


def _whole_rows(read: Callable[Concatenate[Store, P], pd.DataFrame]) -> Callable[Concatenate[Store, P], pd.DataFrame]:
    """A reader of a store that reports damaged rows in one line."""

    @wraps(read)
    def checked(store: Store, *args: P.args, **options: P.kwargs) -> pd.DataFrame:
        with read_errors(store.path):
            return read(store, *args, **options)

    return checked


@_whole_rows
def runs_frame(
    store: Store, study: str | None = None, columns: Literal["all", "varying"] = "all", unfinished: bool = False
) -> pd.DataFrame:
    """One row per run that has ended: identity, configuration, status, accuracies, sizes, timings, every field.

    Runs come in the order of the study; without one, in the order in which they ended. `varying`: only the id, the
    configuration, the fields in which these runs differ, learning rate, seed, and what came out. `unfinished`: also the runs
    that have begun and not ended, with the status `training` and what was measured last.
    """
    if columns not in ("all", "varying"):
        raise SpecError(f"columns {columns!r}: {nearest(columns, ('all', 'varying'))}")
    rows = _run_rows(store, study, unfinished)
    if not rows:
        return pd.DataFrame()
    keys, rates, seeds = zip(*(but_rate_and_seed(row[-1]) for row in rows), strict=True)
    titles = [row[1] for row in rows]
    first: dict[tuple[str, str], int] = {}  # a configuration is parsed, named and flattened once
    places = [first.setdefault(key, len(first)) for key in zip(titles, keys, strict=True)]
    specs = [specification_of(key) for _, key in first]
    fields = pd.DataFrame([flat(spec) for spec in specs]).iloc[places].reset_index(drop=True)
    fields = fields.assign(**{"train.lr": rates, "train.seed": seeds})
    fields = fields.drop(columns=[f"train.{name}" for name in _RUN if fields[f"train.{name}"].isna().all()])
    about = pd.DataFrame(rows, columns=pd.Index(_NAMES)).drop(columns="spec")
    finals = pd.DataFrame(measures(about.pop("final").tolist())).drop(columns="accuracy", errors="ignore")
    about.insert(1, "configuration", np.array(labels([title for title, _ in first], specs), object)[places])
    frame = pd.concat([about, finals.add_prefix("final."), fields], axis="columns")
    for name in _NUMBERS:
        if not is_numeric_dtype(frame[name]):
            frame[name] = frame[name].astype(float)
    for name in _TEXTS:
        if not all(isinstance(value, str) for value in frame[name].dropna().unique()):
            raise ValueError(f"{name} is not text")
    for name in ("versions", "notes"):
        for text in frame[name].dropna().unique():
            check_provenance(name, text)
    if columns == "all":
        return frame
    shown = dict.fromkeys(("id", "configuration", *varying_fields(frame), "train.lr", "train.seed", *_OUTCOMES))
    return pd.DataFrame(frame, columns=[name for name in shown if name in frame])


def _run_rows(store: Store, study: str | None, unfinished: bool) -> list[tuple]:
    """The columns `_NAMES` of each run.

    Runs that have ended and those in training are read apart: a union of both would be copied and indexed before the runs of a
    study are picked from it. Those in training are read first, as one of them may end meanwhile; it is then known by its end.
    """
    if study is not None:
        store.study_source(study)  # refuses a name that the store does not know
    columns = ", ".join(f"found.{name}" for name in _NAMES)

    def read(table: str) -> list[tuple]:
        if study is None:
            return store._query(f"SELECT 0, {columns} FROM {table} found")
        join = "study_runs ON study_runs.run = found.id WHERE study_runs.study = ? ORDER BY study_runs.place"
        return store._query(f"SELECT study_runs.place, {columns} FROM {table} found JOIN {join}", [study])

    begun = read(f"({_UNFINISHED})") if unfinished else []
    ended = read("(SELECT * FROM runs ORDER BY rowid)" if study is None else "runs")
    done = {row[1] for row in ended} if begun else set()
    rows = heapq.merge(ended, [row for row in begun if row[1] not in done], key=itemgetter(0))
    return [row[1:] for row in rows]


def specification_of(text: str) -> dict[str, Any]:
    """The specification of a run as plain data."""
    spec = json.loads(text)
    parts = [spec[part] for part in _PARTS]
    if not all(isinstance(part, dict) for part in (*parts, spec["model"].get("mixer", {}))):
        raise ValueError("a specification is not a mapping of mappings")
    if not all(isinstance(spec["train"].get(name, 0), int | float) for name in _RUN):
        raise ValueError("a learning rate or a seed is not a number")
    return spec


def field_columns(frame: pd.DataFrame) -> list[str]:
    """The columns of `runs_frame` that are fields of the specification."""
    return [name for name in frame.columns if name.startswith(tuple(f"{part}." for part in _PARTS))]


def varying_fields(frame: pd.DataFrame) -> list[str]:
    """The fields in which the runs of a frame differ."""
    return [name for name in field_columns(frame) if len(frame[name].unique()) > 1]


@_whole_rows
def curves_frame(
    store: Store, study: str | None = None, unfinished: bool = False, runs: Sequence[str] | None = None
) -> pd.DataFrame:
    """One row per run and measurement: of a study, of these `runs`, or of all; `unfinished`: also of runs that have begun and not
    ended."""
    rows = []
    for table in ("points", "training_points") if unfinished else ("points",):
        rows += _of_study(store, "run, data", table, "run, step", study, runs)
    frame = pd.DataFrame(mappings([data for _, data in rows]))
    frame = frame.astype({name: float for name in frame if not is_numeric_dtype(frame[name])})
    if rows:
        frame.insert(0, "run", [run for run, _ in rows])
    return frame


@_whole_rows
def slices_frame(store: Store, study: str | None = None, runs: Sequence[str] | None = None) -> pd.DataFrame:
    """One row per run, measurement, tag and value of the tag: how many answers were scored, how many were right."""
    rows = _of_study(store, "run, step, tag, data", "slices", "run, step, tag", study, runs)
    if not rows:
        return pd.DataFrame()
    records = mappings([data for *_, data in rows])
    sizes = [len(record["values"]) for record in records]
    runs, steps, tags, _ = zip(*rows, strict=True)
    columns = {name: np.repeat(np.array(each, dtype), sizes)
               for name, each, dtype in (("run", runs, object), ("step", steps, int), ("tag", tags, object))}  # fmt: skip
    for name, key in (("value", "values"), ("count", "counts"), ("right", "right")):
        columns[name] = np.array(list(chain.from_iterable(record[key] for record in records)))
        if columns[name].dtype.kind not in "iuf":
            raise ValueError(f"{name} of slices are not numbers")
    return pd.DataFrame(columns)


@_whole_rows
def snapshots_frame(store: Store, study: str | None = None) -> pd.DataFrame:
    """One row per run and snapshot of its embeddings: `share` of the run's own length, `step`, and the arrays `input` and
    `output` (tokens, width); `output` is None where the head is the embedding. Position retrieval: position tokens only.
    """
    records = []
    for run, share, step, data in _of_study(store, "run, share, step, data", "snapshots", "run, share", study):
        tables = {"input": None, "output": None} | safetensors.numpy.load(data)
        records.append({"run": run, "share": share, "step": step, **tables})
    return pd.DataFrame(records, columns=["run", "share", "step", "input", "output"])


KEYS = {
    runs_frame: ["id"], curves_frame: ["run", "step"], slices_frame: ["run", "step", "tag", "value"],
    snapshots_frame: ["run", "share"],
}  # fmt: skip
"""The columns that identify a row of each frame."""


def of_studies(read: Callable[..., pd.DataFrame], store: Store, studies: Sequence[str], **options: Any) -> pd.DataFrame:
    """The frame that `read`, one of the functions above, gives for several studies; a row that several have is kept once."""
    frames = [frame for study in studies if not (frame := read(store, study, **options)).empty]
    return pd.concat(frames).drop_duplicates(KEYS[read], ignore_index=True) if frames else pd.DataFrame()


def write(frame: pd.DataFrame, path: Path) -> None:
    """Write a frame as CSV, Parquet or JSON, by the file's ending."""
    writers: dict[str, Callable[[Path], object]] = {
        ".csv": lambda draft: write_csv(frame, draft),
        ".parquet": lambda draft: frame.to_parquet(draft),
        ".json": lambda draft: frame.to_json(draft, orient="records", indent=1),
    }
    if path.suffix not in writers:
        raise SpecError(f"cannot write {path.name!r}: {nearest(path.suffix, writers)}")
    with written_whole(path) as draft:
        writers[path.suffix](draft)


def write_csv(frame: pd.DataFrame, to: Path | TextIO) -> None:
    """Write a frame as CSV, with an apostrophe before texts that a spreadsheet would compute instead of show."""

    def shown(value: Any) -> Any:
        return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value

    texts = {name: frame[name].map(shown) for name in frame if not is_numeric_dtype(frame[name])}
    frame.assign(**texts).rename(columns=shown).to_csv(to, index=False)


def _of_study(
    store: Store, columns: str, table: str, order: str, study: str | None, runs: Sequence[str] | None = None
) -> list[tuple]:
    """Rows of a table that has a column `run`: those of a study's runs, of these runs, or all."""
    select = f"SELECT {columns} FROM {table}"
    if runs is not None:
        some = "run IN (SELECT value FROM json_each(?))"
        return store._query(f"{select} WHERE {some} ORDER BY {order}", [json.dumps(list(runs))])
    if study is None:
        return store._query(f"{select} ORDER BY {order}")
    store.study_source(study)  # refuses a name that the store does not know
    return store._query(f"{select} WHERE run IN (SELECT run FROM study_runs WHERE study = ?) ORDER BY {order}", [study])


def but_rate_and_seed(spec: str) -> tuple[str, float | None, int | None]:
    """The specification, as JSON, with 0 for its learning rate and seed; and these two, where it has them."""
    if len(found := _RATE_AND_SEED.findall(spec)) == 1:  # parsing many specifications takes ten times as long
        return _RATE_AND_SEED.sub('"train":{"lr":0,"seed":0,', spec), float(found[0][0]), int(found[0][1])
    data = specification_of(spec)
    rate, seed = (data["train"].get(name) for name in _RUN)
    return json.dumps(data | {"train": data["train"] | dict.fromkeys(_RUN, 0)}, separators=(",", ":")), rate, seed


def flat(spec: dict) -> dict[str, Any]:
    """The fields of a specification by dotted name; what is nested deeper than a mixer's options stays JSON."""
    fields = {}
    for part in _PARTS:
        for name, value in spec[part].items():
            if name == "mixer":
                fields["model.mixer"] = value["kind"]
                fields |= {f"model.mixer.{option}": _cell(v) for option, v in value.items() if option != "kind"}
            else:
                fields[f"{part}.{name}"] = _cell(value)
    return fields


def _cell(value: object) -> object:
    """A value that fits a table: what is nested becomes JSON."""
    return (json.dumps(value) if value else None) if isinstance(value, dict | list) else value
