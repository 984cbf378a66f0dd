"""A study that gives no precision has the device's; what is in the store, or given, goes before."""

import re

import pytest
import torch

from recollect.spec import SpecError
from recollect.store.store import Store
from recollect.study.executors.base import Resources
from recollect.study.executors.local import Local
from recollect.study.progress import Progress
from recollect.study.run import run
from recollect.study.spec import Study
from recollect.train.device import choose_device

TRAIN = {"steps": 4, "batch": 4, "eval_every": 2, "eval_rows": 8, "test_rows": 16, "lr": [1e-3, 1e-2]}


def study(**train) -> Study:
    task = {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32}
    return Study(name="s", task=task, model={"width": 8, "layers": 1}, train=TRAIN | train)


def precisions(runs) -> list[str]:
    return [run.train.precision for run in runs]


@pytest.fixture
def able(monkeypatch) -> None:
    """A device that computes in bfloat16."""
    monkeypatch.setattr("recollect.study.executors.base.has_bfloat16", lambda device: True)


def test_it_is_filled_in_where_the_study_leaves_it_open():
    assert precisions(study().runs("bfloat16")) == ["bfloat16"] * 2
    assert precisions(study(precision="auto").runs("bfloat16")) == ["bfloat16"] * 2
    assert precisions(study(precision="float32").runs("bfloat16")) == ["float32"] * 2
    mixed = study(precision=["auto", "float64"], lr=1e-3)
    assert precisions(mixed.runs("bfloat16")) == ["bfloat16", "float64"]
    assert [run.id for run in study().runs()] == [run.id for run in study(precision="float32").runs()]


def test_a_study_is_trained_in_the_devices_precision_and_says_so(tmp_path, able, capsys):
    store = Store(tmp_path / "store.sqlite", create=True)
    run(study(), store=store, device="cpu", workers=1)
    assert store.precisions("s") == {"bfloat16"}
    assert re.search(r"study s: 2 runs, on cpu in bfloat16, results in", capsys.readouterr().out)


def test_it_goes_on_in_the_precision_of_its_runs_in_the_store(tmp_path, able, monkeypatch):
    store, shown = Store(tmp_path / "store.sqlite", create=True), Progress()
    assert run(study(lr=[1e-3]), store=store, device="cpu", workers=1, progress=False).reused == 0
    monkeypatch.undo()  # now on a device without it
    outcome = run(study(), store=store, device="cpu", workers=1, progress=shown)
    assert (outcome.runs, outcome.reused) == (2, 1)
    assert store.precisions("s") == {"bfloat16"}
    assert "in bfloat16 (as the study's runs in the store" in shown.where
    explicit = run(study(precision="float32"), store=store, device="cpu", workers=1, progress=False)
    assert explicit.reused == 0, "what the study says goes before"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
def test_a_gpu_that_is_not_there_is_refused(device):
    with pytest.raises(SpecError, match=f"device '{device}' cannot be used"):
        choose_device(device)


def test_a_cpu_is_asked_for_float32():
    assert not Local.has_bfloat16(Resources(device="cpu"))


@pytest.mark.parametrize(("device", "precision"), [("cpu", "float32"), ("cuda", "bfloat16")])
def test_a_plan_says_which(tmp_path, monkeypatch, capsys, device, precision):
    from recollect.cli.app import app

    (tmp_path / "s.yaml").write_text(study().to_yaml())
    monkeypatch.chdir(tmp_path)
    app(["plan", "s.yaml", "--device", device], standalone_mode=False)
    assert f"\nprecision: {precision}\n" in capsys.readouterr().out
