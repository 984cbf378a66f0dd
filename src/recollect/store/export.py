"""Trained models: a run of a store as a folder that can be loaded, moved and shared.

A store has weights where the study was run with `keep_weights`. Other runs are trained again from their specification: on the
CPU to the bit, on a GPU within its tolerance. The folder holds

    model.safetensors   the trained parameters
    spec.json           the whole specification of the run, how it ended, and with which versions
    load.py             an example: prints the accuracy on rows that the model has never seen
    code/               the user's own mixers and tasks with the files that they import, where the run names files
"""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError

from recollect.models.model import Model, build, outline
from recollect.spec import SpecError, finite
from recollect.spec.output import output_errors
from recollect.spec.source import NAMED_FILE, existing_files, named_files, own_files, portable, untrusted
from recollect.store.records import StoredRun
from recollect.store.store import Store
from recollect.store.versions import versions
from recollect.train.device import choose_device
from recollect.train.events import Ended, Measured
from recollect.train.loop import train
from recollect.train.spec import RunSpec

WEIGHTS, SPECIFICATION, LOADER, CODE = "model.safetensors", "spec.json", "load.py", "code"
_LOADER = '''"""{title}, trained on {task} (run {id}): prints its accuracy on rows that it has never seen."""

from pathlib import Path

import torch

from recollect.store.export import load, specification

folder = Path(__file__).parent
model, run = load(folder, trust=True), specification(folder, trust=True)  # code of the model's own is in this folder, too
task = run.task.for_test()
batch = task.batch(seed=run.train.seed, purpose="fresh", rows=256)
with torch.no_grad():
    logits = model(batch.tokens, batch.positions)  # (rows, answers, vocabulary), where answers are read
right = (logits.argmax(-1) == batch.answers) & batch.scored
answers = (right.sum(1) / batch.scored.sum(1)).mean().item()
rows = (right | ~batch.scored).all(1).float().mean().item()
print(f"{{task.kind}}: {{answers:.4f}} of the answers right, {{rows:.4f}} of the rows wholly right")
'''


@dataclass(frozen=True)
class Exported:
    """A run that has been exported."""

    folder: Path
    id: str
    stored: dict[str, float | None]
    """The final measures as the store has them .."""
    final: dict[str, float | None]
    """.. and those of the weights in the folder."""
    kept: bool
    """Whether the weights are those that the store kept; else the run was trained again."""

    @property
    def same(self) -> bool:
        """Whether training it again gave the very result of the store."""
        return self.stored == self.final


def find(name: str, store: Store, trust: bool = False) -> StoredRun:
    """The run whose id is, or alone begins with, `name`, and that can be trained again; `trust`: code that the store names is
    imported."""
    found = store.lookup(name)
    run = found.trusted if trust else found.run
    if run.id != found.id:
        raise SpecError(
            f"run {found.id} cannot be trained again: its code, or what recollect means by its specification, has changed "
            f"since (the same specification is run {run.id} now)"
        )
    return found


def export(
    run: str,
    store: Store,
    folder: str | Path,
    device: str = "auto",
    watch: Callable[[Measured], None] = lambda _: None,
    trust: bool = False,
) -> Exported:
    """Put a run of the store into a new folder, training it again where its weights were not kept (`auto`: on the kind of
    device that it was trained on). `trust`: also a run of code that is not part of recollect, which is imported."""
    folder, found = Path(folder), find(run, store, trust)
    with output_errors(folder):
        if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
            raise SpecError(f"{folder} is there already and not an empty folder; name another with --to")
        target = folder.resolve()
        draft = target.with_name(f".draft-{os.getpid()}")
        draft.mkdir(parents=True)  # before any training, which a folder that cannot be made would waste
        try:
            made = _write(found, store, draft, device, watch)
            draft.replace(target)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return replace(made, folder=folder)


def _write(
    found: StoredRun, store: Store, folder: Path, device: str, watch: Callable[[Measured], None]
) -> Exported:  # fmt: skip
    """Put a run into an empty folder."""
    run, kept = found.trusted, store.weights_file(found.id)
    if kept.is_file():
        weights, final, status, step = kept.read_bytes(), found.final, found.status, found.step
        device = found.device
    else:
        device = choose_device(found.device if device == "auto" else device)
        ended = _trained(run, device, watch)
        assert ended.weights is not None, "they were asked for"
        final = {name: finite(value) for name, value in ended.final.items()}
        weights, status, step = ended.weights, ended.status, ended.step
    spec = run.model_dump(mode="json")
    files = {name: f"{CODE}/{portable(name)}" for name in existing_files(spec)}
    about = {
        "id": found.id, "run": spec, "files": files, "status": status, "step": step, "final": final,
        "device": device, "versions": versions(),
    }  # fmt: skip
    for name, path in own_files(spec).items():
        (folder / CODE / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / CODE / name)
    (folder / WEIGHTS).write_bytes(weights)
    title, task = (_in_a_docstring(text) for text in (run.model.title, run.task.kind))
    text = _LOADER.format(title=title, task=task, id=found.id)
    (folder / LOADER).write_text(text)
    (folder / SPECIFICATION).write_text(json.dumps(about, indent=1, allow_nan=False) + "\n")
    return Exported(folder, found.id, found.final, final, kept.is_file())


def _trained(run: RunSpec, device: str, watch: Callable[[Measured], None]) -> Ended:
    for event in train([run], device, every=float("inf"), weights=True):
        if isinstance(event, Ended):
            return event
        if isinstance(event, Measured):
            watch(event)
    raise AssertionError("training ends with a result")


def specification(folder: str | Path, trust: bool = False) -> RunSpec:
    """The run that an exported folder holds; its own files are those in the folder, which are only imported with `trust`."""
    folder = Path(folder)
    path = folder / SPECIFICATION
    if not path.is_file():
        raise SpecError(f"{folder} is not an exported run: it has no {SPECIFICATION}; recollect export writes one")
    try:
        about = json.loads(path.read_text())
        places = {old: (folder / new).resolve() for old, new in about["files"].items()}
        named = named_files(about["run"])
        spec = _moved(about["run"], {old: str(place) for old, place in places.items()})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
        raise SpecError(f"{path} cannot be read as an exported run: {type(error).__name__}: {error}") from None
    for name in named:
        if name not in places or not places[name].is_relative_to(folder.resolve()):
            raise SpecError(f"{path} names code outside of its folder: {name}")
    with untrusted(unless=trust):
        return RunSpec.model_validate(spec)


def load(folder: str | Path, trust: bool = False) -> Model:
    """The trained model of an exported folder, on the CPU and in the precision of its weights. `trust`: also a model of code that
    is not part of recollect, which is in the folder and is imported."""
    run, path = specification(folder, trust), Path(folder) / WEIGHTS
    if not path.is_file():
        raise SpecError(f"{folder} is not an exported run: it has no {WEIGHTS}")
    try:
        weights = safetensors.torch.load_file(path)
    except (SafetensorError, OSError) as error:
        raise SpecError(f"{path} cannot be read: {error}") from None
    own = dict(outline(run.model, run.task.vocabulary, run.row_length).named_parameters())
    if {name: p.shape for name, p in own.items()} != {name: p.shape for name, p in weights.items()}:
        raise SpecError(f"{path} does not hold the parameters of the model that {SPECIFICATION} describes")
    model = build(run.model, run.task.vocabulary, run.row_length, run.train.seed)
    if run.train.precision == "float64":
        model = model.double()
    model.load_state_dict(weights, strict=False)  # buffers are made with the model
    return model.requires_grad_(False)


def _moved(spec: Any, places: dict[str, str]) -> Any:
    """The specification with its files at other places."""
    if isinstance(spec, dict):
        return {name: _moved(value, places) for name, value in spec.items()}
    if isinstance(spec, list):
        return [_moved(value, places) for value in spec]
    found = NAMED_FILE.fullmatch(spec) if isinstance(spec, str) else None
    return f"{places[found[1]]}:{found[2]}" if found and found[1] in places else spec


def _in_a_docstring(text: str) -> str:
    """A text that cannot end the docstring it stands in."""
    return "".join(letter if letter.isprintable() else " " for letter in text).replace("\\", "/").replace('"', "'")
