"""The plan: the right counts before anything starts, and where each number is from."""

import os
import re
import subprocess
import sys
from collections import Counter

import pytest
import torch
from torch import nn

from recollect.bench.timing import Shape
from recollect.mixers import MIXERS
from recollect.models import model as models
from recollect.models.model import build
from recollect.store.frames import runs_frame
from recollect.store.store import Store
from recollect.study import plan as planning
from recollect.study.cost import H200, MACHINES, cpu_seconds, gpu_seconds, work_of
from recollect.study.plan import Plan, make_plan, time_steps
from recollect.study.run import expand, run
from recollect.study.spec import Study
from recollect.tasks.mqar import MQAR
from recollect.train.optimisers.base import Optimiser

TASK = {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32}
TRAIN = {"steps": 10, "batch": 8, "eval_every": 4, "eval_rows": 16, "test_rows": 32, "lr": [1e-3, 1e-2], "seed": [1, 2]}


class Shy(nn.Module):
    """A mixer of a user's own that does not count its operations."""

    def __init__(self, width: int):
        super().__init__()
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(x)


def plan_of(asked: Study, *arguments, **options) -> Plan:
    (grid,) = expand(asked)
    return make_plan(grid, *arguments, **options)


def study(**fields) -> Study:
    return Study(**{"name": "s", "task": TASK, "model": {"width": 16, "layers": 1}, "train": TRAIN, **fields})


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "store.sqlite", create=True)


def test_operations_and_tokens_are_those_of_the_steps_and_measurements():
    (run, *_) = study(tests=[{**TASK, "length": 24}]).runs()
    model = build(run.model, 32, 24, seed=0)
    short, long = model.flops(16, 2), model.flops(24, 2)
    work = work_of(run)
    assert work.step_flops == 3 * 8 * short
    assert work.flops == 10 * 3 * 8 * short + 3 * 16 * short + 32 * short + 32 * long, "measured at steps 4, 8 and 10"
    assert work.tokens == (10 * 8 + 3 * 16 + 32) * 16 + 32 * 24


@pytest.mark.parametrize("mixer", sorted(MIXERS))
def test_every_built_in_mixer_is_counted_and_needs_no_memory_for_it(mixer):
    (run, *_) = study(model={"mixer": mixer, "width": 32, "layers": 2}).runs()
    work = work_of(run)
    assert work.counted
    assert work.step_flops == 3 * 8 * build(run.model, 32, 16, seed=0).flops(16, 2)


def test_runs_done_and_left_cohorts_and_totals(store):
    run(study(), store=store, device="cpu", workers=1, progress=False)
    larger = study(model={"width": [16, 32], "layers": 1}, train={**TRAIN, "seed": [1, 2, 3]})
    plan = plan_of(larger, store, "cpu", cohort=4)
    assert [(part.label, part.runs, part.done, len(part.left), part.cohorts) for part in plan.parts] == [
        ("attention, width=16", 6, 4, 2, 1),
        ("attention, width=32", 6, 0, 6, 2),
    ]
    assert (plan.total("runs"), plan.total("done"), plan.left, plan.total("cohorts")) == (12, 4, 8, 3)
    assert plan.total("flops") == sum(len(part.left) * work_of(part.example).flops for part in plan.parts)


def test_time_is_from_the_store_where_it_knows_the_shape_then_from_steps_then_from_other_runs(store):
    run(study(), store=store, device="cpu", workers=1, progress=False)
    both = study(model={"width": [16, 32], "layers": 1}, train={**TRAIN, "seed": [1, 2, 3]})
    plan = plan_of(both, store, "cpu", cohort=4)
    assert [part.basis for part in plan.parts] == ["measured", "other runs"]
    seconds = runs_frame(store)["seconds"].mean()
    assert plan.parts[0].seconds == pytest.approx(2 * seconds)
    known, other = (part.example for part in plan.parts)
    slower = seconds / cpu_seconds(known, work_of(known))  # than a core is assumed to be
    assert plan.parts[1].seconds == pytest.approx(6 * slower * cpu_seconds(other, work_of(other)))
    assert [part.basis for part in plan_of(both, store, "cpu", 4, calibrate=True).parts] == ["measured", "timed now"]
    fresh = plan_of(both, None, "cpu", 4)
    assert [part.basis for part in fresh.parts] == ["assumed", "assumed"]
    example = fresh.parts[0].example
    assert fresh.parts[0].seconds == pytest.approx(6 * cpu_seconds(example, work_of(example)))
    assert any("--calibrate" in warning for warning in fresh.warnings)
    elsewhere = plan_of(both, store, "cuda", 4).parts[1]
    assert (elsewhere.basis, elsewhere.cohorts) == ("H200 model", 2)
    expected = 4 * gpu_seconds(elsewhere.example, 4) + 2 * gpu_seconds(elsewhere.example, 2)
    assert elsewhere.seconds == pytest.approx(expected)


def test_a_plan_for_a_gpu_runs_own_code_in_another_process(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(
        "import os\nfrom pathlib import Path\nfrom recollect.train.optimisers.sgd import SGD\n"
        "class Own(SGD):\n    def state_bytes(self, params):\n"
        "        Path('asked', str(os.getpid())).touch()\n        return 0\n"
    )
    (tmp_path / "asked").mkdir()
    plan = plan_of(study(train={**TRAIN, "optimiser": "own.py:Own"}), None, "cuda", 4)
    assert plan.parts[0].seconds > 0
    asked = [path.name for path in (tmp_path / "asked").iterdir()]
    assert asked
    assert str(os.getpid()) not in asked


def test_a_plan_draws_builds_and_counts_each_thing_once(monkeypatch):
    calls = Counter()

    def counted(owner, name):
        original = getattr(owner, name)

        def call(*given, **options):
            calls[name] += 1
            return original(*given, **options)

        monkeypatch.setattr(owner, name, call)

    for owner, name in ((MQAR, "sample"), (models, "build"), (Optimiser, "state_bytes"), (planning, "work_of")):
        counted(owner, name)
    task = {**TASK, "vocab": 46}  # a vocabulary that no other test has: nothing of it is remembered
    wide = {"mixer": ["attention", "deltanet"], "width": [16, 32], "layers": 1}
    asked = study(
        task=task, tests=[{**task, "length": 24}], model=wide, train={**TRAIN, "batch": [4, 8], "seed": [1, 2, 3]}
    )
    made = plan_of(asked, None, "cuda", 4)
    assert (len(made.parts), made.total("cohorts")) == (8, 16), "two sizes of cohort per shape"
    assert calls == {"sample": 2, "build": 4, "state_bytes": 4, "work_of": 8}


def test_a_few_timed_steps_foretell_a_run(store):
    one = study(train={**TRAIN, "steps": 150, "eval_every": 150})
    run(one, store=store, device="cpu", workers=1, progress=False)
    taken = runs_frame(store)["seconds"].sum()
    planned = time_steps(one.runs(), "cpu").seconds(work_of(one.runs()[0]), len(one.runs()), cohorts=1)
    assert taken / 6 < planned < taken * 6


def test_a_mixer_that_does_not_count_its_operations_is_warned_of():
    plan = plan_of(study(model={"mixer": f"{__file__}:Shy", "width": 16, "layers": 1}), None, "cpu", 8)
    assert any("does not count its operations" in warning for warning in plan.warnings)
    assert plan.total("flops") > 0


def test_a_search_is_planned_with_the_most_it_may_ask_for(store):
    train = {**TRAIN, "lr": "logspace(1e-5, 1e-1, 17)", "seed": [1, 2, 3]}
    plan = plan_of(study(train=train, search="window"), store, "cpu", 8)
    assert (plan.searches, plan.total("runs"), plan.left) == (1, 51, 25)


def recollect(*words, cwd) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "recollect.cli", *map(str, words)], capture_output=True, text=True, cwd=cwd
    )


def test_the_command_prints_a_table_and_starts_nothing(tmp_path):
    (tmp_path / "s.yaml").write_text(study(model={"mixer": ["attention", "mamba"], "width": 16, "layers": 1}).to_yaml())
    shown = recollect("plan", "s.yaml", "--dollars-per-hour", "3600", "--device", "cpu", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert re.search(r"attention\s*│\s*4 │\s*0 │\s*4 │\s*1 │", shown.stdout)
    assert re.search(r"all\s*│\s*8 │\s*0 │\s*8 │\s*2 │", shown.stdout)
    assert "assumed" in shown.stdout
    elsewhere = recollect("plan", "s.yaml", "--device", "cuda:3", cwd=tmp_path)
    assert "study s on cuda:3" in elsewhere.stdout
    other = recollect("plan", "s.yaml", "--for", "a100", cwd=tmp_path)
    assert "study s on A100" in other.stdout
    assert "precision: bfloat16" in other.stdout
    assert "dollars" not in other.stdout
    unknown = recollect("plan", "s.yaml", "--for", "h20", cwd=tmp_path)
    assert unknown.returncode == 2
    assert "--for 'h20': did you mean 'h200'? choose from: a100, cpu, h200" in unknown.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["s.yaml"]


def test_a_million_runs_are_not_unfolded_unasked(tmp_path):
    (tmp_path / "s.yaml").write_text(
        study(train={"steps": 3, "lr": "logspace(1e-5, 1, 2000)", "seed": "linspace(1, 1000, 1000)"}).to_yaml()
    )
    refused = recollect("plan", "s.yaml", cwd=tmp_path)
    assert refused.returncode == 2
    assert "2,000,000 runs" in refused.stderr
    assert "--yes" in refused.stderr


SEARCH = """
name: tiny
task: {kind: mqar, length: 16, pairs: 2, vocab: 32}
model: {mixer: [attention, {kind: attention, conv: k}], width: 16, layers: 1}
train: {steps: 4, batch: 4, eval_every: 4, eval_rows: 16, test_rows: 16}
search: {low: 1.0e-3, high: 1.0e-1, points: 5, coarse: 3, seeds: [1, 2]}
"""


@pytest.mark.long
def test_a_searching_study_runs_merges_and_is_found_done_from_the_command_line(tmp_path):
    (tmp_path / "tiny.yaml").write_text(SEARCH)
    first = recollect("run", "tiny.yaml", "--device", "cpu", "--store", "a.sqlite", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "search: " in first.stdout
    assert "0 of 2 have a window, 10 of 20 runs (50%)" in first.stdout
    moved = recollect("merge", "a.sqlite", "--store", "b.sqlite", cwd=tmp_path)
    assert moved.returncode == 0, moved.stderr
    assert "10 runs added to b.sqlite" in moved.stdout
    again = recollect("run", "tiny.yaml", "--device", "cpu", "--store", "b.sqlite", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "trained" not in again.stdout
    assert "0 of 2 have a window, 10 of 20 runs (50%)" in again.stdout


def test_float32_is_as_measured_where_it_was_and_never_quicker_than_the_hardware():
    for mixer, measured in (("attention", 1.35), ("mamba", 1.81)):
        assert step_time(Shape(mixer, precision="float32").runs(1)[0], 36) == pytest.approx(measured / 1e3, rel=0.1)
    for machine in (H200, MACHINES["a100"]):
        for precision, peak in machine.peak.items():
            wide = Shape("attention", width=2048, length=256, pairs=16, batch=256, precision=precision).runs(1)[0]
            assert step_time(wide, 64, machine) > work_of(wide).step_flops / peak


def test_an_a100_is_slower_by_at_least_its_memory_and_at_most_its_products():
    run = Shape("attention", precision="bfloat16").runs(1)[0]
    assert 4.8 / 2.04 < step_time(run, 64, MACHINES["a100"]) / step_time(run, 64) + 0.3 < 9.89 / 3.12 + 0.3


def step_time(run, members: int, machine=H200) -> float:
    """Seconds of one compiled step, but for what is paid once, or for a measurement."""
    each = (run.train.changed(steps=steps, eval_every=steps) for steps in (200_000, 100_000))
    long, short = (run.model_copy(update={"train": train}) for train in each)
    return (gpu_seconds(long, members, machine) - gpu_seconds(short, members, machine)) / 100_000


def test_a_cohort_too_short_to_be_compiled_is_not_planned_to_wait_for_it():
    run = Shape("attention", precision="bfloat16").runs(1)[0]
    short = run.model_copy(update={"train": run.train.changed(steps=100, eval_every=100)})
    assert 1.2 <= 36 * gpu_seconds(short, 36) < 2.5, "12 ms a step or more, and a measurement"


LONG = {"width": 128, "length": 256, "pairs": 16, "batch": 256}
OWN = {"mlp": "none"}
MEASURED = [  # mixer, setting, members, milliseconds per run and step: `recollect bench` on an NVIDIA H200, docs/benchmarks.md
    ("attention", {}, 128, 0.212), ("attention", {}, 36, 0.225), ("attention", {}, 12, 0.280), ("attention", {}, 1, 1.24),
    ("linear_attention", {}, 36, 0.272), ("hyena", {}, 36, 0.336), ("deltanet", {}, 36, 0.386), ("mamba2", {}, 36, 0.378),
    ("mamba", {}, 36, 0.505), ("mamba2", OWN, 36, 0.291), ("mamba", OWN, 36, 0.417), ("attention", LONG, 36, 0.987),
    ("linear_attention", LONG, 36, 1.15), ("hyena", LONG, 36, 1.40), ("deltanet", LONG, 36, 1.75), ("mamba2", LONG, 36, 1.56),
    ("mamba", LONG, 36, 1.95), ("mamba2", LONG | OWN, 36, 1.15), ("mamba", LONG | OWN, 36, 1.55),
]  # fmt: skip


@pytest.mark.parametrize(("mixer", "setting", "members", "milliseconds"), MEASURED)
def test_the_model_of_a_gpu_is_within_10_percent_of_what_was_measured(mixer, setting, members, milliseconds):
    run = Shape(mixer, precision="bfloat16", **setting).runs(1)[0]
    assert step_time(run, members) == pytest.approx(milliseconds / 1000, rel=0.1)


@pytest.mark.parametrize(
    ("mixer", "width", "layers", "length", "vocab", "measured"),
    [
        ("attention", 64, 2, 64, 8192, 0.0710),
        ("attention", 64, 2, 64, 256, 0.0548),
        ("mamba", 64, 2, 64, 256, 0.182),
        ("deltanet", 64, 2, 64, 256, 0.105),
        ("attention", 32, 1, 32, 64, 0.0084),
    ],
)
def test_assumed_times_of_a_cpu_are_near_what_was_measured(mixer, width, layers, length, vocab, measured):
    task = {"kind": "mqar", "length": length, "pairs": 4, "vocab": vocab}
    model = {"mixer": mixer, "width": width, "layers": layers}
    train = {"steps": 1000, "batch": 64, "eval_every": 1000, "eval_rows": 1, "test_rows": 1}
    (run,) = Study(task=task, model=model, train=train).runs()
    assert 1 / 1.8 < cpu_seconds(run, work_of(run)) / 1000 / measured < 1.8
