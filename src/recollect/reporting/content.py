"""What a page says of studies, as plain data: every run, every configuration, curves, tags, failures, provenance."""

import json
import shlex
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pandas as pd

from recollect.analysis.window import THRESHOLD, windows
from recollect.reporting.charts import configurations
from recollect.reporting.curves import SINGLE, curve_points
from recollect.reporting.mixing import kept_mixing
from recollect.reporting.words import question, unknowns
from recollect.spec import SpecError, finite
from recollect.spec.reading import read_yaml
from recollect.spec.source import untrusted
from recollect.store.frames import field_columns, runs_frame, slices_frame, varying_fields
from recollect.store.labels import run_labels
from recollect.store.store import Store
from recollect.views.base import Frames, prepared
from recollect.views.fields import measures, varying
from recollect.views.tags import tag_table

RESAMPLES = 1000
"""Draws of the bootstrap of windows, where a page has few enough runs for it."""
_INTERVALS = ("interval_low", "interval_high", "sensitivity_low", "sensitivity_high", "loss_sensitivity_low",
              "loss_sensitivity_high", "best_lr_low", "best_lr_high")  # fmt: skip
"""What a bootstrap says of a window .."""
_WINDOW = ("low", "high", "decades", "open_low", "open_high", "zoology_finds", "seeds", "rates", "seed_min", "seed_max",
           "checkpoint_decades", "sensitivity", "loss_sensitivity", "diverged_low", "diverged_high")  # fmt: skip
""".. and what else the page says of it."""


class Content:
    """The frames of some studies of a store, and what a page says of them."""

    def __init__(self, store: Store, names: Sequence[str]):
        self.store, self.names = store, list(names)
        self.sources = {name: store.study_source(name) for name in names}
        self.given = {name: _mapping(source) for name, source in self.sources.items()}
        found = {name: runs_frame(store, name) for name in names}
        parts = [frame.assign(study=name) for name, frame in found.items() if not frame.empty]
        runs = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
        self.stored = runs
        runs = prepared(runs)
        searches = [given.get("search") for given in self.given.values()]
        asked = [search["threshold"] for search in searches if isinstance(search, dict) and "threshold" in search]
        points, curve_of, self.curves_note = curve_points(store, runs)
        numbers = {id: i for i, id in enumerate(dict.fromkeys(curve_of.values()))}
        self._number = {id: numbers[first] for id, first in curve_of.items()}
        best = runs.loc[runs["at_best"], "id"].unique().tolist() if len(runs) else []
        slices = slices_frame(store, runs=best)
        threshold = asked[0] if asked else THRESHOLD
        self.frames = Frames(runs, points, slices, kept_mixing(store, runs), threshold)

    def runs(self) -> dict[str, list[Any]]:
        """One value per run in every column that the page uses; None where there is none."""
        runs = self.stored
        if runs.empty:
            return {}
        first = ("id", "study", "configuration", "model", "status", "accuracy", "train.lr", "train.seed")
        shown = dict.fromkeys((*first, *varying(runs), *measures(runs), "parameters", "state_size"))
        columns = {name: [finite(value) for value in runs[name].tolist()] for name in shown if name in runs}
        return columns | {
            "at_best": self.frames.runs["at_best"].astype(int).tolist(),
            "curve": [self._number.get(id, -1) for id in runs["id"]],
        }

    def curves(self) -> list[dict[str, Any]]:
        """The points of each curve by column, and its `run`, in the order of the numbers in the column `curve` of the runs."""
        found: list[dict[str, Any]] = [{} for _ in set(self._number.values())]
        for run, points in self.frames.curves.groupby("run", sort=False) if len(found) else []:
            columns = {name: list(map(finite, points[name].tolist())) for name in points if name != "run"}
            found[self._number[run]] = {"run": run, **columns}
        return found

    def tags(self) -> dict[str, list[Any]]:
        """Answers by study, configuration (the number of its line), tag, step and value, of the runs at the best rate."""
        parts, numbers = [], {pair: i for i, pair in enumerate(configurations(self.frames.runs))}
        for name in self.names if len(self.frames.slices) and len(self.frames.runs) else []:
            own = self.frames.runs.loc[self.frames.runs["study"] == name]
            if len(own):
                table = tag_table(own, self.frames.slices)
                parts.append(table.assign(study=name, line=[numbers[name, line] for line in table["line"]]))
        table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
        return {str(name): table[name].tolist() for name in table}

    def configurations(self) -> list[dict[str, Any]]:
        """By study and configuration: accuracy at its best rate, and its window where rates vary."""
        rows: list[dict[str, Any]] = []
        runs = self.frames.runs
        few = len(runs) <= SINGLE
        resamples, keys = (RESAMPLES, (*_WINDOW, *_INTERVALS)) if few else (1, _WINDOW)
        for name in self.names if len(runs) else []:
            own = runs.loc[runs["study"] == name]
            swept = own["train.lr"].nunique() > 1
            found = windows(own, threshold=self.frames.threshold, resamples=resamples) if swept else None
            by_name = found.set_index("configuration").to_dict("index") if found is not None else {}
            for label, group in own.groupby("configuration", sort=False):
                best = group.loc[group["at_best"]]
                accuracy, first = best["accuracy"].astype(float).tolist(), group.iloc[:1]
                rows.append({
                    "study": name, "configuration": label, "accuracy": float(best["accuracy"].mean()), "lowest": min(accuracy),
                    "highest": max(accuracy), "best_rate": float(best["train.lr"].iloc[0]), "runs": len(group),
                    "diverged": int((group["status"] == "diverged").sum()),
                    **{size: finite(first[size].tolist()[0]) for size in ("parameters", "state_size")},
                    **{key: finite(by_name[label][key]) for key in keys if label in by_name},
                })  # fmt: skip
        return rows

    def study(self, name: str) -> dict[str, Any]:
        """The description of one study: its question, counts, specification, failures and provenance."""
        given, ids = self.given[name], self.store.studies()[name]
        runs = self.stored.loc[self.stored["study"] == name] if len(self.stored) else self.stored
        columns = {str(column): [finite(value) for value in runs[column].tolist()] for column in runs}
        failures = _failures(self.store, ids, given)
        varied = varying_fields(runs) if len(runs) else []
        shared = {field: columns[field][0] for field in field_columns(runs) if field not in varied} if len(runs) else {}
        return {
            "name": name, "source": self.sources[name], "planned": len(ids), "ended": len(runs), "failures": failures,
            "failed": len({failure["run"] for failure in failures if not failure["ended"]}),
            "question": question(columns if len(runs) else {}, given), "unknowns": unknowns(given),
            "statuses": dict(Counter(runs["status"])) if len(runs) else {},
            "shared": {field: value for field, value in shared.items() if value is not None},
            "provenance": _provenance(self.store, name, columns) if len(runs) else None,
        }  # fmt: skip


def _failures(store: Store, ids: list[str], given: dict[str, Any]) -> list[dict[str, Any]]:
    own, done = set(ids), store.done()
    records = [failure._asdict() for failure in store.failures() if failure.run in own]
    labels = _labels(given) if records else {}
    return [{**record, "ended": done.get(record["run"]), "about": labels.get(record["run"])} for record in records]


def _labels(given: dict[str, Any]) -> dict[str, str]:
    """Which run an id stands for, from the study file: the store knows no specification of what did not end."""
    from recollect.study.precision import AUTOMATIC  # brings torch along, which a page without failures does not need
    from recollect.study.spec import Study

    try:
        with untrusted():  # the store may be from elsewhere, and the code that it names is not run for a label
            study = Study(**given)
            study.check_size(allow_many=False)
            grids = [study.runs(precision) for precision in AUTOMATIC]  # it may have been the device's
    except (SpecError, TypeError):
        return {}
    return {
        run.id: f"{label}, learning rate {run.train.lr:g}, seed {run.train.seed}"
        for runs in grids
        for run, label in zip(runs, run_labels(runs), strict=True)
    }


def _provenance(store: Store, name: str, runs: dict[str, list[Any]]) -> dict[str, Any]:
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
    return {str(key): value for key, value in data.items()}
