"""Runs that were recorded once stay what they were: the same identities, the same numbers, on a like machine to the bit.

The recording covers every mixer, every task, hybrids, dropout, clipping, schedules, a checkpoint written then and read now, the
grids of every paper, and a store as it was written then. It is made anew, with the semantics version raised, only when a law is
changed on purpose: `python tests/test_recorded.py`. What is new is added with `python tests/test_recorded.py new`.
"""

import hashlib
import json
import math
import platform
import shutil
import sqlite3
import sys
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest
import torch

import recollect
from recollect.mixers import MIXERS as BUILT_IN_MIXERS
from recollect.papers import PAPERS
from recollect.spec import digest
from recollect.store.frames import curves_frame, runs_frame, slices_frame
from recollect.store.store import Store
from recollect.study.spec import Study
from recollect.train.events import Ended, Saved
from recollect.train.loop import train
from recollect.train.spec import RunSpec

FOLDER = Path(__file__).parent / "recorded"
SCALES = ("tiny", "small")
TASK = {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32}
TRAIN = {"lr": 3e-3, "seed": 1, "steps": 8, "batch": 8, "eval_every": 4, "eval_rows": 16, "test_rows": 32}
MODEL = {"mixer": "attention", "width": 16, "layers": 1}
MIXERS = [
    "attention", {"kind": "attention", "heads": 2, "conv": "k"}, {"kind": "attention", "heads": 2, "window": 5},
    "linear_attention", {"kind": "linear_attention", "heads": 2, "feature": "taylor", "feature_dim": 3},
    "based", {"kind": "based", "form": "paper", "feature_dim": 4}, "base_conv", {"kind": "base_conv", "implicit": True},
    "h3", "hyena", {"kind": "hyena", "order": 3}, "rwkv", "rwkv6", "rwkv7", "mamba",
    {"kind": "mamba", "conv": False}, {"kind": "mamba", "gate": False, "expand": 1}, "s6", "mamba2",
    {"kind": "mamba2", "head_dim": 8, "state": 8, "groups": 2}, "deltanet", {"kind": "deltanet", "heads": 4},
    "gated_deltanet", "gla", "retnet", "lstm", "kda", "gated_deltanet2", "deltaproduct", "mamba3", "lru",
]  # fmt: skip
TASKS = [
    {"kind": "mqar", "length": 16, "pairs": 4, "vocab": 18, "filler": "blank"},
    {"kind": "mqar", "length": 32, "pairs": 4, "vocab": 64, "roles": "shared"},
    {"kind": "mqar", "length": 32, "pairs": 8, "vocab": 64, "variant": "zoology"},
    "ar", {"kind": "ar", "pairs": 3, "vocab": 8, "roles": "shared"}, {"kind": "copy", "length": 6},
    {"kind": "copy", "length": 6, "packed": True}, {"kind": "ngram", "n": 3, "k": 1, "min_length": 8, "length": 9},
    {"kind": "ngram", "variant": "jelassi", "query": "prefix"}, "duplicates",
    {"kind": "duplicates", "segments": 10, "variant": "released"}, {"kind": "position", "length": 20},
    {"kind": "position", "variant": "sampled"}, {"kind": "mixture", "parts": ["mqar", {"kind": "mqar", "length": 128}]},
    "induction", "selective_copy", "noisy", "fuzzy", "compositional", "updating", {"kind": "copy", "length": 6, "reverse": True},
    "words", "parity", {"kind": "modular", "brackets": True}, {"kind": "stacks", "operations": 20}, "hops", "mad_recall",
    "mad_noisy", "mad_fuzzy", "mad_memorization", "mad_selective_copy",
]  # fmt: skip
MODELS = [
    {"mixer": "attention", "positions": "rotary"}, {"mixer": "attention", "positions": "sinusoidal"},
    {"mixer": "attention", "positions": "alibi"}, {"mixer": "attention", "positions": "hard_alibi"},
    {"mixer": "mamba", "positions": "relative"}, {"mixer": "attention", "mlp": "swiglu", "norm": "rms", "tie": False},
    {"mixer": "attention", "mlp": "none"}, {"mixer": "attention", "mlp": "identity", "parallel": True},
    {"mixer": "attention", "dropout_embedding": 0.1, "dropout_residual": 0.2}, {"mixer": {"kind": "attention", "dropout": 0.1}},
    {"layers": 3, "pattern": "MT",
     "blocks": {"M": {"mixer": "mamba2", "mlp": "none"}, "T": {"mixer": "attention", "parallel": True}}},
    {"mixer": "mamba", "mlp": "none", "layers": 2, "second": {"block": {"mixer": "attention"}, "gated": "first"}},
    {"mixer": "mamba2", "mlp": "none", "norm": "rms", "layers": 2, "residual": "released",
     "second": {"block": {"mixer": "attention"}, "gate": "vector"}},
]  # fmt: skip
TRAINS = [
    {"clip": 0.5}, {"decay": "matrices", "weight_decay": 0.3}, {"schedule": "linear", "warmup": 3}, {"schedule": "constant"},
    {"steps": 0, "epochs": 2, "train_rows": 32}, {"stop_at": 0.01}, {"stop_hopeless": 0.5}, {"slices": "always"},
    {"snapshots": 2}, {"beta1": 0.8, "beta2": 0.95, "eps": 1e-6}, {"precision": "float64"}, {"max_loss": 3.0},
]  # fmt: skip


def recorded_runs() -> list[RunSpec]:
    """Every run of the recording; those of one shape train together."""
    points = [(TASK, {**MODEL, "mixer": mixer}, {**TRAIN, "lr": lr}) for mixer in MIXERS for lr in (1e-3, 1e-2)]
    points += [(task, MODEL, TRAIN) for task in TASKS]
    points += [("mad_compression", MODEL | {"head": "autoencoder"}, TRAIN)]
    points += [(TASK, MODEL | model, {**TRAIN, "seed": seed}) for model in MODELS for seed in (1, 2)]
    points += [(TASK, MODEL, TRAIN | change) for change in TRAINS]
    # On a CPU these are trained one after another; all others here are so small that they are trained at once.
    points += [(TASK, {**MODEL, "mixer": mixer, "width": 64}, TRAIN | {"batch": 64, "steps": 3}) for mixer in MIXERS]
    return [RunSpec(task=task, model=model, train=how) for task, model, how in points]


def trained(runs: list[RunSpec]) -> dict[str, Ended]:
    cohorts: dict[str, list[RunSpec]] = {}
    for run in runs:
        cohorts.setdefault(run.shape, []).append(run)
    ended = [event for cohort in cohorts.values() for event in train(cohort) if isinstance(event, Ended)]
    return {event.run.id: event for event in ended}


def facts(ended: Ended) -> dict:
    """The result of a run, as JSON has it."""
    snapshots = (
        hashlib.sha256(b"".join(data for *_, data in ended.snapshots)).hexdigest()[:16] if ended.snapshots else ""
    )
    found = {"status": ended.status, "step": ended.step, "final": ended.final, "curve": ended.curve, "slices": ended.slices,
             "parameters": ended.parameters, "snapshots": snapshots}  # fmt: skip
    return json.loads(json.dumps(found))


def machine() -> dict[str, str]:
    """What decides the last bits of a number."""
    flags = ""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = [line for line in cpuinfo.read_text().splitlines() if line.startswith(("flags", "model name"))]
        flags = digest(sorted(set(lines)))
    return {"torch": torch.__version__, "capability": torch.backends.cpu.get_cpu_capability(), "cpu": flags,
            "platform": platform.machine()}  # fmt: skip


def grids() -> dict[str, str]:
    """By item and scale: how many runs there are, and a hash of their identities in order."""
    found = {}
    for name in PAPERS:
        for item in PAPERS.find(name).items:
            for scale in SCALES:
                runs = item.runs(scale)
                found[f"{name}/{item.name} {scale}"] = f"{len(runs)} {digest([run.id for run in runs])}"
    return found


def old_study() -> Study:
    """What the recorded store holds."""
    return Study(
        name="old", task={**TASK, "pairs": [2, 4]}, model={**MODEL, "mixer": ["attention", "mamba"]},
        train={**TRAIN, "lr": [1e-3, 1e-2], "slices": "always", "snapshots": 2},
    )  # fmt: skip


def frames(path: Path) -> dict[str, list[dict]]:
    """What a store says, but for how long it took and where."""
    store = Store(path)
    made = {"runs": runs_frame, "curves": curves_frame, "slices": slices_frame}
    return {
        name: json.loads(make(store, "old").to_json(orient="records", double_precision=15))
        for name, make in made.items()
    }


def record() -> None:
    """Write the recording anew."""
    FOLDER.mkdir(exist_ok=True)
    runs = recorded_runs()
    _write(
        "runs.json",
        {
            "machine": machine(),
            "order": [run.id for run in runs],
            "runs": {id: facts(e) for id, e in trained(runs).items()},
        },
    )
    record_grids()
    halfway = [event.data for event in train(runs[:2], every=0) if isinstance(event, Saved) and event.step == 5]
    (FOLDER / "checkpoint.safetensors").write_bytes(halfway[0])
    store = FOLDER / "store-2.sqlite"
    store.unlink(missing_ok=True)
    recollect.run(old_study(), store=Store(store, create=True), device="cpu", workers=1, progress=False)
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")  # one file
    Path(f"{store}.lock").unlink(missing_ok=True)
    _write("store-2.json", frames(store))


def record_new() -> None:
    """Add the runs that the recording does not have, with the machine that they were trained on, and leave the others alone."""
    kept, runs = _read("runs.json"), recorded_runs()
    added = trained([run for run in runs if run.id not in kept["runs"]])
    kept["order"] = [run.id for run in runs]
    kept["runs"] |= {id: facts(ended) | {"machine": machine()} for id, ended in added.items()}
    _write("runs.json", kept)
    record_grids()


def record_grids() -> None:
    """Write the runs of every paper item anew, and nothing else."""
    _write("grids.json", grids())


def _write(name: str, data: object) -> None:
    (FOLDER / name).write_text(json.dumps(data, indent=None, separators=(",", ":")) + "\n")


def _read(name: str) -> dict:
    return json.loads((FOLDER / name).read_text())


@cache
def _recording() -> dict:
    return _read("runs.json")


def _as_recorded(ended: Ended) -> None:
    """Equal to the bit on a machine like the recording's; elsewhere to 1e-5, and shares to two answers of 32 rows."""
    found, expected = facts(ended), dict(_recording()["runs"][ended.run.id])
    path = f"{ended.run.id} {ended.run.model.title} {ended.run.task.kind}"
    if machine() == expected.pop("machine", _recording()["machine"]):
        assert found == expected, path
    else:
        _like(found, expected, path)


def _like(found, expected, path: str) -> None:
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), path
        for name in expected:
            if name not in ("right", "snapshots"):
                _like(found[name], expected[name], f"{path}.{name}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), path
        for i, (a, b) in enumerate(zip(found, expected, strict=True)):
            _like(a, b, f"{path}.{i}")
    elif isinstance(expected, float):
        loose = any(word in path for word in ("accuracy", "answers", "rows"))
        assert math.isclose(found, expected, rel_tol=1e-5, abs_tol=0.15 if loose else 1e-7), (
            f"{path}: {found} {expected}"
        )
    else:
        assert found == expected, path


def test_every_mixer_is_recorded():
    assert set(BUILT_IN_MIXERS.built_in) == {run.model.mixer.kind for run in recorded_runs()}


def test_identities_are_as_recorded():
    assert [run.id for run in recorded_runs()] == _recording()["order"]
    assert len(set(_recording()["order"])) >= 80


def test_the_papers_grids_are_as_recorded():
    assert grids() == _read("grids.json")


def test_numbers_are_as_recorded():
    found = trained(recorded_runs())
    assert found.keys() == _recording()["runs"].keys()
    for ended in found.values():
        _as_recorded(ended)


def test_a_recorded_checkpoint_goes_on():
    runs = recorded_runs()[:2]
    saved = (FOLDER / "checkpoint.safetensors").read_bytes()
    ended = [event for event in train(runs, saved=saved) if isinstance(event, Ended)]
    assert len(ended) == 2
    for event in ended:
        _as_recorded(event)


@pytest.fixture(params=["store-1", "store-2"])
def old_store(request, tmp_path):
    """A store of each version of semantics."""
    return Path(shutil.copy(FOLDER / f"{request.param}.sqlite", tmp_path))


def test_a_recorded_store_reads_as_then(old_store):
    found, expected = frames(old_store), _read(f"{old_store.stem}.json")
    for name, records in expected.items():
        assert len(found[name]) == len(records)
        for now, then in zip(found[name], records, strict=True):
            assert {column: now[column] for column in then} == then
    assert {run["semantics"] for run in found["runs"]} == {int(old_store.stem[-1])}


def test_runs_of_this_version_are_reused_and_those_of_an_older_one_are_not(old_store):
    outcome = recollect.run(old_study(), store=Store(old_store), device="cpu", workers=1, progress=False)
    assert outcome.reused == (8 if old_store.stem == "store-2" else 0)
    assert set(outcome.results("all")["semantics"]) == {2}, "a study never mixes versions"
    assert len(runs_frame(Store(old_store))) == (8 if outcome.reused else 16), (
        "what is older is kept, and shown as such"
    )


if __name__ == "__main__":
    {"grids": record_grids, "new": record_new}.get(" ".join(sys.argv[1:]), record)()
