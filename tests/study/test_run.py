"""One runner for every face: a grid is expanded once, several studies train as one, and a result shows itself."""

import sys

import numpy as np
import pytest
from torch import nn

import recollect
from recollect.spec import SpecError
from recollect.store.store import Store
from recollect.study import spec as study_spec
from recollect.study.executors.base import Resources
from recollect.study.executors.local import InProcess
from recollect.study.run import run
from recollect.study.spec import Study
from recollect.tasks import MQAR
from recollect.train.optimisers.adamw import AdamW
from recollect.train.spec import TrainSpec

TASK = MQAR(length=16, pairs=2, vocab=32)
TRAIN = {"steps": 4, "batch": 4, "eval_every": 2, "eval_rows": 8, "test_rows": 16}


def study(**fields) -> Study:
    model = {"mixer": "attention", "width": 8, "layers": 1}
    return Study(**{"name": "s", "task": TASK, "model": model, "train": TRAIN, "lr": [1e-3, 1e-2], **fields})


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "store.sqlite", create=True)


def train(*studies: Study, store: Store, **options):
    return recollect.run(studies, store=store, device="cpu", workers=1, progress=False, **options)


@pytest.fixture
def expanded(monkeypatch) -> list:
    """Every grid that is expanded."""
    grids = []
    unfold = study_spec.unfold
    monkeypatch.setattr(study_spec, "unfold", lambda grid: grids.append(grid) or unfold(grid))
    return grids


def test_a_grid_is_expanded_once_per_run(store, expanded):
    train(study(), store=store)
    assert len(expanded) == 1
    train(study(search={"points": 5, "seeds": [1]}, lr=None), store=store)
    assert len(expanded) == 2, "a search expands its grid once, however many rounds it has"


@pytest.mark.parametrize("words", [["run", "s.yaml"], ["plan", "s.yaml"], ["demo"]], ids=lambda words: words[0])
def test_a_grid_is_expanded_once_per_command(tmp_path, monkeypatch, expanded, words):
    from recollect.cli import demo, main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(study().to_yaml())
    monkeypatch.setattr(demo, "demo_study", lambda quick: study())
    monkeypatch.setattr("recollect.study.executors.sharing.cores", lambda: 1)
    monkeypatch.setattr(sys, "argv", ["recollect", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert len(expanded) == 1


def test_several_studies_train_as_one_and_share_their_runs(store):
    outcome = train(study(), study(name="t", lr=[1e-2, 1e-1]), store=store)
    assert (outcome.runs, outcome.reused, sum(outcome.ended.values())) == (3, 0, 3)
    assert len(outcome.results()) == 3
    assert {name: len(runs) for name, runs in store.studies().items()} == {"s": 2, "t": 2}
    with pytest.raises(SpecError, match="2 studies are called 's'"):
        train(study(), study(), store=store)


def test_a_search_and_a_grid_run_together(store):
    searching = study(name="searching", search={"points": 5, "seeds": [1], "threshold": 0.9}, lr=None)
    outcome = train(searching, study(), store=store)
    assert outcome.searches.keys() == {"searching"}
    assert outcome.searches["searching"].asked
    assert outcome.threshold == 0.9
    assert set(outcome.windows()["threshold"]) == {0.9}, "tables use the threshold of the search"


def test_what_a_python_user_writes_is_plain_data():
    class Inner:
        pass

    asked = study(lr=np.logspace(-3, -1, 3), seed=range(2), train=TrainSpec(steps=4, batch=4))
    assert asked.train["lr"] == [0.001, 0.01, 0.1]
    assert asked.train["seed"] == [0, 1]
    assert len(asked.runs()) == 6
    assert Study.from_yaml(asked.to_yaml()) == asked
    assert asked.task == {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32}
    both = study(task=[TASK, MQAR], model=recollect.ModelSpec(mixer="mamba", width=np.int64(8), layers=1))
    assert {run.task.row_length for run in both.runs()} == {16, 64}
    with pytest.raises(ValueError, match=r"lr and train\.lr both say what to try"):
        study(train={**TRAIN, "lr": 1e-3})
    with pytest.raises(ValueError, match="Inner is neither a mixer"):
        study(model={"mixer": Inner})
    with pytest.raises(ValueError, match="give the class Linear, not a module made of it"):
        study(model={"mixer": nn.Linear(2, 2)})


def test_an_optimiser_may_be_an_object():
    asked = study(train={**TRAIN, "optimiser": AdamW(beta2=0.95), "schedule": "linear"})
    assert asked.train["beta2"] == 0.95
    assert asked.runs()[0].id == study(train={**TRAIN, "beta2": 0.95, "schedule": "linear"}).runs()[0].id
    assert len(study(train={**TRAIN, "optimiser": [AdamW, "lion"]}).runs()) == 2 * len(asked.runs())
    with pytest.raises(SpecError, match=r"train\.optimiser: .*AdamW\(\.\.\) needs a mapping of its own: train="):
        study(train={**TRAIN, "optimiser": [AdamW(beta2=0.95), "lion"]})


def test_a_built_in_class_is_the_mixer_of_that_name():
    from recollect.mixers.mamba import Mamba

    named = study(model={"mixer": "mamba", "width": 8, "layers": 1})
    assert study(model={"mixer": Mamba, "width": 8, "layers": 1}).runs() == named.runs()


def test_a_result_is_a_table_a_picture_and_a_report(store, tmp_path):
    outcome = train(study(), store=store)
    assert outcome.results("all").shape[1] > 40 > outcome.results().shape[1]
    assert list(outcome.results()["train.lr"]) == [1e-3, 1e-2]
    assert set(outcome.results()["state_size"]) == {2 * 16 * 8}, "keys and values of 16 tokens"
    assert len(outcome.curves()) == 4
    assert "best_lr" in outcome.windows()
    page = outcome._repr_html_()
    assert "<table" in page
    assert "attention" in page
    assert repr(outcome).startswith("Outcome(s: 2 runs, 0 reused, 2 finished")
    figure = outcome.picture("a title")
    assert figure.axes
    assert figure._repr_png_().startswith(b"\x89PNG"), "a notebook shows the picture"
    assert outcome.report(tmp_path / "page.html").read_text().startswith("<!doctype html>")
    assert train(study(), store=store).reused == 2


def test_an_executor_that_is_given_stays_open_and_its_device_counts(store):
    class Counting(InProcess):
        closed = 0

        def close(self) -> None:
            self.closed += 1
            super().close()

    executor = Counting(Resources("cpu"))
    recollect.run(study(), store=store, executor=executor, progress=False)
    assert executor.closed == 0
    executor.close()


def test_a_script_without_a_guard_trains_in_worker_processes(tmp_path):
    """A new process must not run the user's script again."""
    import subprocess

    script = tmp_path / "sweep.py"
    script.write_text(
        "from recollect import Study\n"
        "print('once')\n"
        f"outcome = Study(task={{'kind': 'mqar', 'length': 16, 'pairs': 2, 'vocab': 32}}, lr=[1e-3, 1e-2], seed=[1, 2],\n"
        f"    model={{'width': 8, 'layers': 1}}, train={TRAIN!r}).run(store='s.sqlite', workers=2, device='cpu')\n"
        "print(len(outcome.results()))\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "once"
    assert done.stdout.count("once") == 1
    assert done.stdout.splitlines()[-1] == "4"
    assert "4 of 4 runs" in done.stdout


@pytest.mark.parametrize(
    ("studies", "options", "message"),
    [
        ("s.yaml", {}, r"expected a Study, got 's.yaml': Study.load\(path\) reads a file"),
        ({"name": "s"}, {}, r"expected a Study, got \{'name': 's'\}"),
        ([], {"workers": -1}, "workers -1: expected a number that is not negative"),
        ([], {"cohort": -2}, "cohort -2: expected"),
        ([], {"stop_after": -0.5}, "stop_after -0.5: expected"),
    ],
)
def test_what_is_no_study_and_numbers_below_zero_are_refused(tmp_path, studies, options, message):
    with pytest.raises(SpecError, match=message):
        run(studies, store=tmp_path / "s.sqlite", progress=False, **options)
    assert not (tmp_path / "s.sqlite").exists()
