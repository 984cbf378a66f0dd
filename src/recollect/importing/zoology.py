"""Zoology's configuration files (github.com/HazyResearch/zoology) as study files.

A file of Zoology makes a list `configs` of TrainConfig, one per run. Each becomes a point of a grid here, and every field of it
is mapped, has no effect on training, or is named as not mapped. A run with a mixer or a task that does not exist here is left out
and named.
"""

import json
import math
import runpy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from recollect.importing.fields import Fates, Fields, LeftOut
from recollect.importing.models import zoology_model
from recollect.importing.script import Function, Made, call, read_script
from recollect.importing.tables import NOT_MAPPED, TASK, TRAIN, TRAIN_SAME
from recollect.spec import SpecError
from recollect.study.spec import Study

ALWAYS = (
    "Zoology lowers the learning rate once per epoch, recollect at every step; both by a cosine to zero.",
    "Zoology draws batches of one setting after another, and ends a run at 99 % on its tests; recollect mixes the settings in "
    "every batch, and ends a run on validation rows.",
)
"""What differs whatever a file says."""


@dataclass
class Imported:
    """A file of Zoology as a study."""

    study: Study
    text: str
    """The study file."""
    runs: int
    """How many runs the file of Zoology has."""
    left_out: dict[str, int]
    """Why runs are left out, and how many."""
    fates: Fates
    """What became of every field."""


def import_zoology(path: str | Path, trust: bool = False) -> Imported:
    """The study of a file of Zoology, which is read and not executed, unless `trust` says that it may be."""
    path = Path(path)
    if not path.is_file():
        raise SpecError(f"{path}: no such file")
    names = _as_plain(runpy.run_path(str(path))) if trust else read_script(path)
    fates, left_out = Fates(), dict[str, int]()
    configs = names.get("configs") or _of_functions(names, fates)
    if not (configs and isinstance(configs, list | tuple) and all(isinstance(one, Made) for one in configs)):
        raise SpecError(f"{path}: it makes no list `configs` of TrainConfig, nor functions that add models to a list")
    runs: dict[str, Fields] = {}
    for config in configs:
        try:
            run = _run(config, fates)
            if runs.setdefault(yaml.safe_dump(run), run) is not run:
                raise LeftOut("the same as another run, but for what is not mapped")
        except LeftOut as error:
            left_out[str(error)] = left_out.get(str(error), 0) + 1
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise SpecError(
                f"{path}: a TrainConfig of it is not one of Zoology's: {type(error).__name__}: {error}"
            ) from None
    if not runs:
        reasons = "; ".join(f"{reason} ({n} runs)" for reason, n in left_out.items())
        raise SpecError(f"{path}: no run can be written as one of recollect's: {reasons}")
    # A copy in which nothing is shared, so that the file has no anchors.
    fields = {"name": path.stem.replace("_", "-"), **json.loads(json.dumps(_grid([*runs.values()])))}
    text = f"# From {path.name}, a configuration of Zoology.\n" + yaml.safe_dump(fields, sort_keys=False, width=120)
    return Imported(Study.model_validate(fields), text, len(configs), left_out, fates)


def _of_functions(names: Mapping[str, Any], fates: Fates) -> list[Made]:
    """A file that only defines functions add_..(models, conv_mixer, input_seq_len, model_factory_kwargs): their models, on
    MQAR with Zoology's defaults."""
    models: list[Made] = []
    for name, function in names.items():
        if isinstance(function, Function) and name.startswith("add_"):
            identity = {"name": "torch.nn.Identity", "kwargs": {}}
            models = call(function, models, None, 64, {"state_mixer": identity, "vocab_size": 8192}) or models
    if models:
        fates.note(
            "configs", None, "absent: the models of the file's functions, on MQAR (64, 4), at four learning rates"
        )
    task = Made("MQARConfig", {"num_examples": 100_000, "num_kv_pairs": 4})
    data = Made("DataConfig", {"train_configs": [task], "test_configs": [task], "batch_size": 512})
    rates = [float(f"{10 ** (-4 + 2 * i / 3):.12g}") for i in range(4)]
    shared = {"data": data, "max_epochs": 64}
    return [Made("TrainConfig", {"model": m, "learning_rate": r, **shared}) for m in models for r in rates]


def _as_plain(value: Any) -> Any:
    """Objects of Zoology's classes, which a trusted file made, as `Made`."""
    if hasattr(type(value), "model_fields"):
        given = [*type(value).model_fields, *(value.model_extra or ())]
        return Made(type(value).__name__, {name: _as_plain(getattr(value, name)) for name in given})
    if isinstance(value, dict):
        return {key: _as_plain(inner) for key, inner in value.items() if not str(key).startswith("__")}
    if isinstance(value, np.generic):
        return value.item()
    return [_as_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _run(config: Made, fates: Fates) -> Fields:
    """One run: task, tests, model and train."""
    own = fates.fields(config, "train", "train")
    data = fates.fields(own.pop("data", None), "data", "data")
    if "builder" in data:
        raise LeftOut("data.builder, as Zoology's first version names a task, is not mapped")
    model, vocab = zoology_model(own.pop("model", None), fates)
    train = {"protocol": "zoology2024", **fates.rename(own, TRAIN, "train", "train")}
    train["lr"] = float(f"{train.get('lr', 1e-3):.12g}")
    metric = own.pop("early_stopping_metric", "valid/accuracy")
    if metric not in (None, "valid/accuracy"):
        fates.note("train.early_stopping_metric", metric, NOT_MAPPED)
    threshold = fates.take(own, "train", "early_stopping_threshold", "train.stop_at")
    train["stop_at"] = threshold if metric == "valid/accuracy" and threshold else 0.0
    fates.rest(own, TRAIN_SAME, "train")
    task, rows = _tasks(data.pop("train_configs", []), "data.train_configs", fates)
    tests, test_rows = _tasks(data.pop("test_configs", []), "data.test_configs", fates)
    train |= {"train_rows": sum(rows), "test_rows": max(test_rows)}
    if len(set(test_rows)) > 1:
        fate = f"{NOT_MAPPED} one by one: the largest is taken for all"
        fates.note("data.test_configs.num_examples", test_rows, fate)
    batch = fates.take(data, "data", "batch_size", "train.batch (that of tests has no effect)", 32)
    train["batch"] = int(batch[0] if isinstance(batch, list | tuple) else batch)
    if "seed" in data:
        fates.note("data.seed", data.pop("seed"), f"{NOT_MAPPED}: train.seed decides the data too")
    fates.rest(data, {"num_passes": 1}, "data")
    if any(one["vocab"] != vocab for one in (*task, *tests)):
        fates.note("model.vocab_size", vocab, f"{NOT_MAPPED}: a model's vocabulary is that of its task")
    weights = [n // math.gcd(*rows) for n in rows]
    mixed = [one | ({"weight": w} if max(weights) > 1 else {}) for one, w in zip(task, weights, strict=True)]
    asked = task[0] if len(task) == 1 else {"kind": "mixture", "parts": mixed}
    return {"task": asked, "tests": [] if tests == task and len(task) == 1 else tests, "model": model, "train": train}


def _tasks(segments: list[Any], path: str, fates: Fates) -> tuple[list[Fields], list[int]]:
    """The tasks of a list of segments, and the rows of each."""
    tasks, rows = [], []
    for segment in segments:
        if segment.kind != "MQARConfig":
            raise LeftOut(f"task {segment.kind}: only MQARConfig is mapped")
        own = fates.fields(segment, "task", path)
        fate = "train.train_rows" if "train" in path else "train.test_rows"
        rows.append(fates.take(own, path, "num_examples", fate))
        vocab = fates.take(own, path, "vocab_size", "task.vocab", 8192)
        task = {"kind": "mqar", "variant": "zoology", "vocab": vocab, **fates.rename(own, TASK, path, "task")}
        random = fates.take(own, path, "random_non_queries", "task.filler", True)
        task["filler"] = "random" if random else "blank"
        fates.rest(own, {}, path)
        tasks.append(task)
    if not tasks:
        raise LeftOut(f"{path} is empty")
    return tasks, rows


def _grid(runs: list[Fields]) -> Fields:
    """The runs as one study: models and learning rates are axes, and what else differs varies together."""
    settings: dict[str, Fields] = {}
    pairs: dict[str, list[tuple[str, float]]] = {}
    models: dict[str, Fields] = {}
    for run in runs:
        train = dict(run["train"])
        rate = train.pop("lr")
        setting = {"task": run["task"], "tests": run["tests"], "train": train}
        key, model = yaml.safe_dump(setting), yaml.safe_dump(run["model"])
        settings.setdefault(key, setting)
        models.setdefault(model, run["model"])
        pairs.setdefault(key, []).append((model, rate))
    rates = list(dict.fromkeys(rate for own in pairs.values() for _, rate in own))
    full = {(model, rate) for model in models for rate in rates}
    if any(set(own) != full for own in pairs.values()):
        raise SpecError(
            "its runs are not a full grid of models, learning rates and tasks, which a study is; import a part of them"
        )
    first, *others = settings.values()
    train, model = {**first["train"], "lr": rates}, _widths(list(models.values()))
    study: Fields = {"task": first["task"], "model": model, "train": train}
    if first["tests"]:
        study["tests"] = first["tests"]
    if others:
        every = [first, *others]
        together: Fields = {"task": [one["task"] for one in every]}
        if any(one["tests"] != first["tests"] for one in others):
            together["tests"] = [one["tests"] for one in every]
        for name in first["train"]:
            if any(one["train"][name] != first["train"][name] for one in others):
                together[f"train.{name}"] = [one["train"][name] for one in every]
        study["zip"] = [together]
    return study


def _widths(models: list[Fields]) -> list[Fields]:
    """Models that differ in their width alone, as one entry each."""
    merged: dict[str, Fields] = {}
    for model in models:
        same = merged.setdefault(yaml.safe_dump({**model, "width": 0}), {**model, "width": []})
        same["width"].append(model["width"])
    return [{**one, "width": one["width"] if one["width"][1:] else one["width"][0]} for one in merged.values()]
