"""Sinks get the curves, and never stop a study."""

import subprocess
import sys
import warnings

import pytest

from recollect.spec import SpecError
from recollect.store.frames import curves_frame, runs_frame
from recollect.store.store import Store
from recollect.study.run import run
from recollect.study.sinks import SINKS
from recollect.study.sinks.base import Sink, Sinks
from recollect.study.spec import Study


def study() -> Study:
    task = {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32}
    train = {"steps": 10, "batch": 8, "eval_every": 5, "eval_rows": 16, "test_rows": 32, "lr": [1e-3, 1e-2]}
    return Study(name="s", task=task, model={"width": 16, "layers": 1}, train=train)


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "store.sqlite", create=True)


class Recorder(Sink):
    def __init__(self, fail_at: int = -1):
        self.events, self.closed, self.fail_at = [], False, fail_at

    def event(self, cohort, event) -> None:
        self.events.append(event)
        if len(self.events) == self.fail_at:
            raise OSError("the line is dead")

    def close(self) -> None:
        self.closed = True


def test_a_sink_that_fails_is_left_out_with_one_warning_and_the_study_goes_on(store):
    broken, whole = Recorder(fail_at=2), Recorder()
    message = r"Recorder is left out from here on \(OSError: the line is dead\)"
    with pytest.warns(UserWarning, match=message) as caught:
        outcome = run(study(), store=store, device="cpu", workers=1, sinks=[broken, whole], progress=False)
    assert len(caught) == 1
    assert outcome.ended["finished"] == 2
    assert len(broken.events) == 2
    assert len(whole.events) == 4, "two measurements and two endings"
    assert whole.closed


def test_a_sink_that_fails_to_close_is_only_a_warning():
    class Stuck(Recorder):
        def close(self) -> None:
            raise OSError("stuck")

    last = Recorder()
    with pytest.warns(UserWarning, match="stuck"), Sinks([Stuck(), last]):
        pass
    assert last.closed


@pytest.mark.parametrize(("extra", "module"), [("tensorboard", "torch.utils.tensorboard"), ("wandb", "wandb")])
def test_a_missing_extra_is_named(monkeypatch, tmp_path, extra, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SpecError, match=rf'{extra} is not installed: pip install "recollect\[{extra}\]"'):
        SINKS.find(extra)(str(tmp_path), "s")


def test_tensorboard_has_every_curve(store, tmp_path):
    pytest.importorskip("tensorboard", reason="the extra `tensorboard` is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of libraries under TensorBoard
        warnings.filterwarnings("error", ".*is left out")
        sinks = [SINKS.find("tensorboard")(str(tmp_path / "board"), "s")]
        run(study(), store=store, device="cpu", workers=1, sinks=sinks, progress=False)
        folders = sorted((tmp_path / "board" / "s").iterdir())
        assert [folder.name.rpartition("-")[0] for folder in folders] == [
            "attention-lr0.001-seed42",
            "attention-lr0.01-seed42",
        ]
        curves = curves_frame(store, "s")
        for folder in folders:
            board = EventAccumulator(str(folder)).Reload()
            truth = curves[curves["run"] == folder.name.rpartition("-")[2]]
            for column in ("accuracy", "train_loss", "test_loss", "lr"):
                points = board.Scalars(column)
                assert [point.step for point in points] == [5, 10]
                assert [point.value for point in points] == pytest.approx(list(truth[column]), rel=1e-6)
            assert len(board.Scalars("final/accuracy")) == 1


def test_the_command_takes_a_folder_for_tensorboard(tmp_path):
    pytest.importorskip("tensorboard", reason="the extra `tensorboard` is not installed")
    (tmp_path / "s.yaml").write_text(study().to_yaml())
    words = ["run", "s.yaml", "--device", "cpu", "--to-tensorboard", "board"]
    done = subprocess.run([sys.executable, "-m", "recollect.cli", *words], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "board" / "s").iterdir())) == 2


def test_weights_and_biases_gets_every_run_offline(store, tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="the extra `wandb` is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    for folder in ("DIR", "CONFIG_DIR", "CACHE_DIR"):
        monkeypatch.setenv(f"WANDB_{folder}", str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries under W&B
        warnings.filterwarnings("error", ".*is left out")
        sinks = [SINKS.find("wandb")("tests", "s")]
        run(study(), store=store, device="cpu", workers=1, sinks=sinks, progress=False)
    written = [path.name for path in tmp_path.glob("wandb/offline-run-*/run-*.wandb")]
    assert sorted(name[len("run-s-") : -len(".wandb")] for name in written) == sorted(runs_frame(store)["id"])
