"""An exported run is the run: the same numbers, the same logits, and a folder that stands by itself."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import recollect
from recollect import Study
from recollect.spec import SpecError
from recollect.store.export import _in_a_docstring, export, find, load, specification
from recollect.store.store import Store, StoreError
from recollect.train.events import Ended
from recollect.train.loop import train

TRAIN = {"lr": [0.003, 0.01], "seed": 1, "steps": 20, "batch": 8, "eval_every": 10, "eval_rows": 16, "test_rows": 32}
MIXER = """
from torch import nn

class Mean(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.out = nn.Linear(width, width)

    def forward(self, x):
        return self.out(x.cumsum(1))
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    """A store with two small runs."""
    folder = tmp_path_factory.mktemp("stored")
    study = Study(
        name="small",
        task={"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32},
        model={"mixer": {"kind": "attention", "conv": "k"}, "width": 16, "layers": 1},
        train=TRAIN,
    )
    return study.run(device="cpu", workers=1, store=folder / "store.sqlite", progress=False).store


@pytest.fixture(scope="module")
def exported(store, tmp_path_factory):
    """One of the runs, exported."""
    run = next(iter(store.done()))
    return export(run[:10], store, tmp_path_factory.mktemp("exported") / "model")


def test_training_again_gives_the_very_result(exported, store):
    assert exported.same
    assert exported.final == find(exported.id, store).final
    assert {path.name for path in exported.folder.iterdir()} == {"model.safetensors", "spec.json", "load.py"}


def test_loading_gives_the_same_logits(exported, store):
    """The model as it stood at the end of training, in company, against the one from the folder."""
    runs = [find(id, store).run for id in store.done()]
    ended = [event for event in train(runs, weights=True) if isinstance(event, Ended)]
    kept = {event.run.id: event.weights for event in ended}
    assert (exported.folder / "model.safetensors").read_bytes() == kept[exported.id]
    batch = specification(exported.folder).task.batch(5, "fresh", 8)
    first, again = (load(exported.folder)(batch.tokens, batch.positions) for _ in range(2))
    assert torch.equal(first, again)
    assert first.shape == (8, 2, 32)


def test_weights_that_were_kept_are_exported_without_training(tmp_path, monkeypatch):
    study = Study(
        name="kept", task={"kind": "mqar", "length": 8, "pairs": 1, "vocab": 16}, model={"width": 16}, train=TRAIN
    )
    store = Store(tmp_path / "store.sqlite", create=True)
    recollect.run(study, store=store, device="cpu", workers=1, keep_weights=True, progress=False)
    monkeypatch.setattr("recollect.store.export.train", None)
    for i, run in enumerate(study.runs()):
        made = export(run.id, store, tmp_path / f"model{i}")
        again = [event for event in train([run], weights=True) if isinstance(event, Ended)]
        assert made.kept
        assert (made.folder / "model.safetensors").read_bytes() == again[0].weights


def test_weights_come_only_where_asked(store):
    runs = [find(id, store).run for id in store.done()]
    assert all(event.weights is None for event in train(runs) if isinstance(event, Ended))


def test_the_specification_is_whole(exported, store):
    about = json.loads((exported.folder / "spec.json").read_text())
    assert about["id"] == exported.id == specification(exported.folder).id
    assert about["run"]["train"]["weight_decay"] == 0.1, "defaults are written out"
    assert {"recollect", "torch", "python"} <= set(about["versions"])


def test_the_example_works_by_itself(exported, tmp_path):
    done = subprocess.run(
        [sys.executable, exported.folder / "load.py"], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert done.stdout.startswith("mqar: 0."), done.stdout
    assert "of the answers right" in done.stdout


def test_no_name_becomes_code_in_the_example():
    names = ['"""\nimport os\n"""', "back\\slash", "\u2028line"]
    for name in names:
        module = ast.parse(f'"""{_in_a_docstring(name)}"""')
        assert [type(statement) for statement in module.body] == [ast.Expr]


def test_own_mixers_travel_along(tmp_path, monkeypatch):
    """The folder is loaded where the mixer's own file is not."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MIXER.replace("x.cumsum", "scale * x.cumsum") + "\nfrom scales import scale\n")
    Path("scales.py").write_text("scale = 2.0\n")
    task = {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32}
    study = Study(name="own", task=task, model={"mixer": "mine.py:Mean", "width": 8}, train={**TRAIN, "lr": 0.01})
    store = study.run(device="cpu", workers=1, store="store.sqlite", progress=False).store
    made = export(next(iter(store.done())), store, "model")
    Path("mine.py").unlink()
    Path("scales.py").unlink()
    Path("elsewhere").mkdir()
    Path("model").rename("elsewhere/model")
    monkeypatch.chdir("elsewhere")
    assert made.same
    with pytest.raises(SpecError, match=r"mine.py:Mean is code that is not part of recollect.*--trust"):
        load("model")
    mixer, x = load("model", trust=True).layers[0].mixer, torch.ones(1, 2, 8)
    torch.testing.assert_close(mixer(x), mixer.out(2 * x.cumsum(1)))


def test_what_cannot_be_exported_is_refused_in_one_line(store, exported, tmp_path):
    with pytest.raises(StoreError, match="no run 'zzz' has ended in"):
        find("zzz", store)
    with pytest.raises(StoreError, match="no run ''"):
        find("", store)
    with pytest.raises(SpecError, match="is there already and not an empty folder"):
        export(exported.id, store, exported.folder)
    with pytest.raises(SpecError, match=r"is not an exported run: it has no spec\.json"):
        load(tmp_path)


def test_a_beginning_that_two_runs_share_is_refused(store):
    ids = sorted(store.done())
    with store.writing() as writer, writer.transaction() as db:
        db.execute("UPDATE runs SET id = ? WHERE id = ?", (ids[0][:6] + "x" * 10, ids[1]))
    try:
        with pytest.raises(StoreError, match=f"2 runs in .* begin with '{ids[0][:6]}'"):
            find(ids[0][:6], store)
        with pytest.raises(SpecError, match="cannot be trained again"):
            find(ids[0][:6] + "x", store)
    finally:
        with store.writing() as writer, writer.transaction() as db:
            db.execute("UPDATE runs SET id = ? WHERE id = ?", (ids[1], ids[0][:6] + "x" * 10))


def test_a_folder_with_other_weights_is_refused(exported, tmp_path):
    for name in ("spec.json", "model.safetensors"):
        (tmp_path / name).write_bytes((exported.folder / name).read_bytes())
    about = json.loads((tmp_path / "spec.json").read_text())
    about["run"]["model"]["width"] = 8
    (tmp_path / "spec.json").write_text(json.dumps(about))
    with pytest.raises(SpecError, match="does not hold the parameters"):
        load(tmp_path)


def test_the_command(store, tmp_path):
    run = next(iter(store.done()))
    words = ["export", run[:12], "--to", "out", "--store", str(store.path)]
    done = subprocess.run([sys.executable, "-m", "recollect.cli", *words], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "its weights were not kept, so it was trained again, with the very result of the store" in done.stdout
    assert "the very result of the store" in done.stdout
    assert (tmp_path / "out" / "load.py").is_file()
