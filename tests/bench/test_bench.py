"""`recollect bench` times what training does."""

import math

import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from recollect.bench import timing as bench
from recollect.cli import app
from recollect.models.model import build
from recollect.spec import SpecError
from recollect.train.optimisers.base import Optimiser

SMALL = {"width": 16, "length": 16, "pairs": 2, "batch": 4, "vocab": 64, "layers": 1}
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(bench, "SECONDS", 0.01)


def test_cohorts_are_compared_with_one_run_at_a_time_and_the_largest_has_shares():
    best = bench.Ceilings(flops=1e11, bytes=1e10)
    alone, two, three = bench.bench(bench.Shape("attention", **SMALL), [3, 2], CPU, best, compiled=False)
    assert [row.members for row in (alone, two, three)] == [0, 2, 3]
    assert alone.speedup == 1
    for row in (two, three):
        assert row.ms > 0
        assert math.isclose(row.speedup, alone.ms / row.ms)
        assert row.first_step_s > 0
    assert math.isnan(two.sampling)
    for share in (three.sampling, three.head, three.mixers, three.optimiser):
        assert share > 0


class Plain(Optimiser):
    """Gradient descent, which remembers nothing."""

    def start(self, params):
        return {}

    def step(self, params, grads, state, groups, number):
        for group in groups:
            for name in group.names:
                (lr,) = group.like(params[name], "lr")
                params[name].sub_(lr * grads[name])


def test_any_optimiser_is_timed_and_its_state_counted():
    shape = bench.Shape("attention", **SMALL, optimiser=f"{__name__}:Plain")
    _, row = bench.bench(shape, [2], CPU, bench.Ceilings(1e11, 1e10), compiled=False)
    assert row.optimiser > 0
    plain, adamw = (bench.step_bytes(s.runs(1)[0]) for s in (shape, bench.Shape("attention", **SMALL)))
    parameters = sum(p.numel() for p in build(shape.runs(1)[0].model, 64, 16, seed=0).parameters())
    assert adamw - plain == 2 * 2 * 4 * parameters, "two moments, in and out"


def test_the_roofline_is_the_larger_of_operations_and_bytes():
    run = bench.Shape("attention", **SMALL).runs(1)[0]
    parameters = 64 * 16 + 16 * 16 + 2 * 16 + 16 * 48 + 48 + 16 * 16 + 16 + 2 * 16 + 2 * 16 * 64 + 64 + 16 + 2 * 16
    tokens, answers = 4 * 16, 4 * 2
    maps = (16 + 48) + (16 + 16) + (16 + 64) + (64 + 16)
    moved = 3 * tokens * maps * 4 + 3 * answers * 16 * 4 + 2 * tokens * 16 * 4 + 32 * parameters
    assert bench.step_bytes(run) == moved
    rows = [next(bench.bench(bench.Shape("attention", **SMALL), [2], CPU, best, False))
            for best in (bench.Ceilings(1e30, 1e9), bench.Ceilings(1e9, 1e30))]  # fmt: skip
    assert math.isclose(rows[0].roofline * rows[0].ms, moved / 1e9 * 1000)
    assert math.isclose(rows[1].roofline * rows[1].ms, bench.work_of(run).step_flops / 1e9 * 1000)


def test_a_size_that_does_not_fit_is_a_row_without_a_time(monkeypatch):
    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(bench, "Cohort", full)
    rows = list(bench.bench(bench.Shape("attention", **SMALL), [2], CPU, bench.Ceilings(1e9, 1e9), False))
    assert math.isnan(rows[1].ms)


def test_the_command_prints_a_table_and_writes_it(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "ceilings", lambda device: bench.Ceilings(1e11, 1e10))
    words = [f"--{name}={value}" for name, value in SMALL.items()]
    done = CliRunner().invoke(
        app,
        [
            "bench",
            "deltanet",
            "--device=cpu",
            "--cohort=2",
            *words,
            f"--to={tmp_path / 'b.csv'}",
            "--optimiser=muon",
            "--optimiser=lion",
        ],
    )
    assert done.exit_code == 0, done.output
    frame = pd.read_csv(tmp_path / "b.csv")
    assert list(frame["members"]) == [0, 2, 0, 2]
    assert set(frame["mixer"]) == {"deltanet"}
    assert "one at a time" in done.output
    assert "muon" in done.output
    assert set(frame["trained_by"]) == {"muon", "lion"}
    refused = CliRunner().invoke(app, ["bench", "--optimiser=moun", "--device=cpu"])
    assert isinstance(refused.exception, SpecError)
    refused = CliRunner().invoke(app, ["bench", "--precision=int8", "--device=cpu"])
    assert isinstance(refused.exception, SpecError)
