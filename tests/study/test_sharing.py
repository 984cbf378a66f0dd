"""How many workers share a GPU, and the service through which they do."""

import os
from pathlib import Path
from typing import ClassVar

import pytest

from recollect.study.cost import uncompiled_step, will_compile
from recollect.study.executors import mps as service
from recollect.study.executors.base import Resources
from recollect.study.executors.local import InProcess, Local
from recollect.study.executors.mps import Mps
from recollect.study.executors.sharing import Load, load_of, workers_per_gpu
from recollect.study.executors.upcoming import Upcoming
from recollect.study.executors.workers import Workers
from recollect.study.packing import pack
from recollect.study.spec import Study

GB = 1e9
FAKE = """#!/bin/sh
echo "$@ $(test -d $CUDA_MPS_PIPE_DIRECTORY && echo there)" >> {log}
if [ -z "$1" ]; then cat >> {log}; fi
"""


def study(width: int = 64, **train) -> Study:
    fields = {"steps": 10_000, "batch": 512, "precision": "bfloat16", "lr": "logspace(1e-4, 1e-2, 36)"} | train
    return Study(task="mqar", model={"mixer": ["attention", "mamba"], "width": width, "layers": 2}, train=fields)


@pytest.mark.parametrize(
    ("loads", "processors", "memory", "workers"),
    [
        ([], 16, 100, 1),
        ([Load(0.9, 1)], 16, 100, 1),  # one cohort needs one
        ([Load(0.98, 1)] * 20, 16, 100, 1),  # one fills the GPU
        ([Load(0.9, 1)] * 20, 16, 100, 1),
        ([Load(0.5, 1)] * 20, 16, 100, 2),
        ([Load(0.3, 1)] * 20, 16, 100, 3),
        ([Load(0.1, 1)] * 20, 16, 100, 8),  # small ones: as many as the processors serve
        ([Load(0.1, 1)] * 20, 64, 100, 8),
        ([Load(0.1, 1)] * 20, 4, 100, 2),
        ([Load(0.1, 1)] * 20, 1, 100, 1),
        ([Load(0.1, 40), *[Load(0.1, 20)] * 9], 16, 100, 4),  # 40 + 20 + 20 + 20 GB
        ([Load(0.1, 200)] * 9, 16, 100, 1),
    ],
)
def test_workers_fill_the_gpu_and_fit_into_memory(loads, processors, memory, workers):
    loads = [Load(load.filled, load.held * GB) for load in loads]
    assert workers_per_gpu(loads, processors, memory * GB) == workers


def test_the_load_of_a_cohort_grows_with_it():
    attention, mamba = (load_of(study().runs()[start : start + 36]) for start in (0, 36))
    one = load_of(study().runs()[:1])
    assert one.held < attention.held
    assert one.filled < attention.filled < mamba.filled
    assert one.filled < attention.filled < 1
    assert attention.held == pytest.approx(36 * one.held)
    assert 3.7e9 < attention.held < 30e9, "measured: 3.7 GiB when compiled"


OWN = """
from torch import nn
from recollect.tasks.mqar import MQAR
from recollect.train.optimisers.sgd import SGD
class Mixer(nn.Module):
    def __init__(self, width): raise SystemExit
class Optimiser(SGD):
    def state_bytes(self, params): raise SystemExit
class Task(MQAR):
    kind: str = ""
    @property
    def row_answers(self): raise SystemExit
"""


@pytest.mark.parametrize("part", ["mixer", "optimiser", "task"])
def test_own_code_is_not_run_to_learn_how_much_a_cohort_needs(part, tmp_path, monkeypatch, two_gpus):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    named = {"task": "mqar", "mixer": "attention", "optimiser": "adamw"} | {part: f"own.py:{part.title()}"}
    own = Study(
        task={"kind": named["task"], "length": 16, "pairs": 2, "vocab": 40},
        model={"mixer": named["mixer"], "width": 8, "layers": 1},
        train={"optimiser": named["optimiser"], "steps": 100_000, "lr": [0.1, 0.2, 0.3]},
    ).runs()
    assert load_of(own).filled == 0.5
    assert pack(own, 2) == [own[:2], own[2:]]
    upcoming = Upcoming("cuda", workers=1)
    upcoming.expect([own])
    assert not upcoming.queue
    assert not upcoming.compiling


def test_short_cohorts_share_a_gpu_because_their_steps_are_not_compiled():
    short, long = (load_of(study(steps=steps).runs()[:6]) for steps in (3000, 10_000))
    step, _ = uncompiled_step(study(steps=3000).runs()[0], members=6)
    assert step == pytest.approx(0.012), "its kernels are launched one by one"
    assert short.filled < 0.2 < long.filled
    assert workers_per_gpu([short] * 18, processors=16, memory=140 * GB) == 5
    large = study(width=512, batch=4096, steps=20).runs()[:36]
    assert not will_compile(large[0], 36)
    assert load_of(large).filled == 1, "a GPU that is busy all the time is not shared, compiled or not"


def test_many_runs_are_compiled_for_fewer_steps_than_few():
    run = study(steps=5000).runs()[0]
    assert [will_compile(run, members) for members in (1, 72, 162)] == [False, True, True]


@pytest.fixture
def two_gpus(monkeypatch, tmp_path) -> None:
    """A machine with two GPUs and 16 processors, as far as an executor asks before anything trains."""

    class Properties:
        total_memory = 150 * GB

    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path))
    for variable in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        monkeypatch.setenv(variable, str(tmp_path))  # so that it is put back
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda device: Properties)
    monkeypatch.setattr("recollect.study.executors.sharing.cores", lambda: 16)


def test_workers_are_spread_over_the_gpus(two_gpus):
    runs = [run for steps in range(4) for run in study(steps=1000 + steps).runs()]  # 8 cohorts
    shared = Local.start(Resources(runs=runs))
    assert isinstance(shared, Workers)
    assert shared._devices == ["cuda:0", "cuda:1"], "a cohort of 36 fills a GPU"
    given = Local.start(Resources(runs=runs, workers=3))
    assert isinstance(given, Workers)
    assert given._devices == ["cuda:0", "cuda:1", "cuda:0"]
    one = Local.start(Resources(device="cuda:1", runs=runs[:36]))
    assert isinstance(one, InProcess)
    assert one.device == "cuda:1"
    one.close()


@pytest.fixture
def control(tmp_path, monkeypatch) -> Path:
    """A program in the place of the service's own, and what it was called with."""
    log = tmp_path / "log"
    program = tmp_path / service.CONTROL
    program.write_text(FAKE.format(log=log))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    monkeypatch.setattr(service, "RUNNING", tmp_path / "none")
    return log


def test_the_service_is_started_in_a_folder_of_its_own_and_ended(control, monkeypatch):
    monkeypatch.setattr(service, "PROBE", "import os; assert os.path.isdir(os.environ['CUDA_MPS_PIPE_DIRECTORY'])")
    started = Mps.start()
    assert started is not None
    pipe = Path(started.environment["CUDA_MPS_PIPE_DIRECTORY"])
    assert pipe.is_dir()
    assert control.read_text() == "-d there\n"
    started.close()
    assert control.read_text() == "-d there\n there\nquit\n"
    assert not pipe.parent.exists()


def test_a_service_that_serves_nobody_is_ended_and_done_without(control, monkeypatch):
    monkeypatch.setattr(service, "PROBE", "raise SystemExit(1)")
    assert Mps.start() is None
    assert control.read_text().endswith("quit\n")


def test_a_service_of_somebody_else_is_left_alone(control, monkeypatch):
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "/elsewhere")
    assert Mps.start() is None
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY")
    monkeypatch.setattr(service, "RUNNING", control.parent)
    assert Mps.start() is None
    assert not control.exists()
    monkeypatch.setattr(service, "RUNNING", control)
    monkeypatch.setenv("PATH", "/nowhere")
    assert Mps.start() is None


class FakeAhead:
    """Is ready when the test sets it so."""

    made: ClassVar[list["FakeAhead"]] = []

    def __init__(self, run, members, device, held):
        self.run, self.members, self.done, self.closed = run, members, False, False
        FakeAhead.made.append(self)

    def ready(self):
        return self.done

    def close(self):
        self.closed = True


@pytest.fixture
def upcoming(monkeypatch) -> Upcoming:
    monkeypatch.setattr(FakeAhead, "made", [])
    monkeypatch.setattr("recollect.study.executors.upcoming.Ahead", FakeAhead)
    monkeypatch.setattr("recollect.study.executors.upcoming.allowed", lambda device: True)
    monkeypatch.setattr("recollect.study.executors.upcoming.cores", lambda: 8)
    monkeypatch.setattr(Upcoming, "_memory", lambda self: 141e9)
    return Upcoming("cpu", workers=2)


def test_the_next_steps_are_compiled_while_others_train(upcoming):
    widths = [study(width, steps=20000).runs()[:36] for width in (32, 64, 128)]
    upcoming.expect([*widths, study(64, steps=10).runs()[:36]])
    assert [ahead.run.model.width for ahead in FakeAhead.made] == [32, 64], "as many as there are processors to spare"
    FakeAhead.made[0].done = True
    upcoming.advance()
    FakeAhead.made[1].done = True
    upcoming.advance()
    assert [ahead.run.model.width for ahead in FakeAhead.made] == [32, 64, 128], "ten steps are not worth compiling"
    assert [ahead.members for ahead in FakeAhead.made] == [36] * 3
    upcoming.close()
    assert [ahead.closed for ahead in FakeAhead.made] == [False, False, True]


def test_a_step_that_would_not_be_compiled_later_may_be_compiled_ahead(upcoming):
    cohort = study(steps=4900).runs()[:27]
    assert not will_compile(cohort[0], len(cohort)), "it saves 29 seconds, and compiling takes 40"
    upcoming.expect([cohort])
    assert len(FakeAhead.made) == 1, "while others train it costs none of these"


def test_what_is_compiled_leaves_memory_to_what_trains(upcoming, monkeypatch):
    monkeypatch.setattr(Upcoming, "_memory", lambda self: 60e9)
    upcoming.expect([study(64, steps=20000).runs()[:36], study(64, steps=20001).runs()[:36]])
    assert len(FakeAhead.made) == 1
