"""What a page says of one study, as plain data: question, headline, every run, curves, slices, failures, provenance."""

import json
import shlex
from collections import Counter
from typing import Any

import pandas as pd
from pydantic import ValidationError

from recollect.analysis.scaling import at_best_rate
from recollect.analysis.window import THRESHOLD, windows
from recollect.reporting.curves import Budget, curves_content, slices_content
from recollect.reporting.words import question, unknowns
from recollect.spec import SpecError, finite
from recollect.spec.reading import read_yaml
from recollect.spec.source import untrusted
from recollect.store.frames import field_columns, runs_frame, varying_fields
from recollect.store.labels import run_labels
from recollect.store.store import Store
from recollect.study.precision import AUTOMATIC
from recollect.study.spec import Study

Columns = dict[str, list[Any]]
"""One value per run in every column; None where there is none."""
_OUTCOMES = ("accuracy", "best_accuracy", "best_step", "step", "parameters", "state_size", "seconds")
_WINDOW = ("low", "high", "decades", "open_low", "open_high", "zoology_finds", "seeds", "rates", "seed_min", "seed_max",
           "interval_low", "interval_high", "checkpoint_decades", "sensitivity", "sensitivity_low", "sensitivity_high",
           "loss_sensitivity", "loss_sensitivity_low", "loss_sensitivity_high", "best_lr_low", "best_lr_high",
           "diverged_low", "diverged_high")  # fmt: skip
"""What the page says of a window."""


def study_content(store: Store, name: str, budget: Budget) -> dict[str, Any]:
    """What a page says of one study of the store."""
    source = store.study_source(name)
    ids, frame, given = store.studies()[name], runs_frame(store, name), _mapping(source)
    runs = {str(column): [finite(value) for value in frame[column].tolist()] for column in frame}
    failures = _failures(store, ids, given)
    content: dict[str, Any] = {
        "name": name, "source": source, "planned": len(ids), "ended": len(frame), "failures": failures,
        "failed": len({failure["run"] for failure in failures if not failure["ended"]}),
        "question": question(runs, given), "unknowns": unknowns(given), "statuses": {}, "headline": [], "shared": {},
    }  # fmt: skip
    return content | (_results(store, name, frame, runs, given, budget) if runs else {})


def _results(
    store: Store, name: str, frame: pd.DataFrame, runs: Columns, given: dict[str, Any], budget: Budget
) -> dict[str, Any]:
    """What there is to tell once a run has ended."""
    search = given.get("search")
    threshold = search.get("threshold", THRESHOLD) if isinstance(search, dict) else THRESHOLD
    headline = _headline(frame, threshold)
    best = {configuration: row["best_rate"] for configuration, row in headline.items()}
    at_best = [i for i, rate in enumerate(runs["train.lr"]) if rate == best[runs["configuration"][i]]]
    ids_at_best = {label: [runs["id"][i] for i in at_best if runs["configuration"][i] == label] for label in best}
    finals = [column for column in runs if column.startswith("final.")]
    fields, varying = field_columns(frame), varying_fields(frame)
    measures = [column for column in (*_OUTCOMES, *finals) if any(_is_number(value) for value in runs[column])]
    shown = ("id", "configuration", "model", "status", "accuracy", "train.lr", "train.seed", *varying, *measures)
    return {
        "threshold": threshold, "headline": list(headline.values()), "statuses": dict(Counter(runs["status"])),
        "fields": varying, "measures": measures, "runs": {column: runs[column] for column in dict.fromkeys(shown)},
        "shared": {field: runs[field][0] for field in fields if field not in varying},
        **curves_content(store, runs["id"], at_best, budget), **slices_content(store, ids_at_best),
        "provenance": _provenance(store, name, runs),
    }  # fmt: skip


def _headline(frame: pd.DataFrame, threshold: float) -> dict[str, dict[str, Any]]:
    """By configuration: accuracy at its best rate, and its window where rates vary."""
    rows: dict[str, dict[str, Any]] = {}
    for best in at_best_rate(frame).to_dict("records"):
        own = frame.loc[frame["configuration"] == best["configuration"]]
        rows[best["configuration"]] = {
            "configuration": best["configuration"], "runs": len(own), "parameters": best["parameters"],
            "diverged": list(own["status"]).count("diverged"), "best_rate": best["lr"],
            "accuracy": best["accuracy"], "lowest": best["min"], "highest": best["max"],
        }  # fmt: skip
    if len(set(frame["train.lr"])) > 1:
        for row in windows(frame, threshold=threshold).to_dict("records"):
            rows[row["configuration"]] |= {key: finite(row[key]) for key in _WINDOW}
    return rows


def _failures(store: Store, ids: list[str], given: dict[str, Any]) -> list[dict[str, Any]]:
    own, done = set(ids), store.done()
    records = [failure._asdict() for failure in store.failures() if failure.run in own]
    told = _told(given) if records else {}
    return [{**record, "ended": done.get(record["run"]), "about": told.get(record["run"])} for record in records]


def _told(given: dict[str, Any]) -> dict[str, str]:
    """Which run an id stands for, from the study file: the store knows no specification of what did not end."""
    try:
        with untrusted():  # the store may be from elsewhere, and the code that it names is not run for a label
            study = Study(**given)
            study.check_size(allow_many=False)
            grids = [study.runs(precision) for precision in AUTOMATIC]  # it may have been the device's
    except (SpecError, ValidationError, TypeError):
        return {}
    return {
        run.id: f"{label}, learning rate {run.train.lr:g}, seed {run.train.seed}"
        for runs in grids
        for run, label in zip(runs, run_labels(runs), strict=True)
    }


def _provenance(store: Store, name: str, runs: Columns) -> dict[str, Any]:
    versions = Counter(", ".join(f"{k} {v}" for k, v in json.loads(text).items()) for text in runs["versions"])
    notes = Counter(note for text in runs["notes"] for note in json.loads(text))
    return {
        "versions": versions.most_common(), "devices": Counter(runs["device"]).most_common(),
        "notes": notes.most_common(), "seconds": sum(runs["seconds"]), "first": min(runs["ended"]),
        "last": max(runs["ended"]), "command": shlex.join(["recollect", "run", f"{name}.yaml", "--store", str(store.path)]),
    }  # fmt: skip


def _mapping(source: str) -> dict[str, Any]:
    """A study file as plain data, as far as it makes sense: a store from elsewhere may hold any text."""
    try:
        data = read_yaml(source)
    except SpecError:
        return {}
    if not isinstance(data, dict):
        return {}
    search = data.get("search")
    if isinstance(search, dict) and not (isinstance(asked := search.get("threshold"), float) and 0 < asked <= 1):
        data["search"] = {name: value for name, value in search.items() if name != "threshold"}
    return data


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
