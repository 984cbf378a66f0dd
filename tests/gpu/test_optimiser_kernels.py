"""The kernels of Lion and of schedule-free AdamW, compiled; and a step of each optimiser as part of a CUDA graph."""

import importlib.util
from pathlib import Path

import pytest
import torch

from recollect.train.cohort import Cohort
from recollect.train.optimisers import OPTIMISERS
from recollect.train.spec import RunSpec

if not torch.cuda.is_available():
    pytest.skip("compiled kernels need a GPU", allow_module_level=True)
pytest.importorskip("triton", reason="the kernels need Triton")

_at = Path(__file__).parents[1] / "ops" / "test_triton_optimisers.py"
_spec = importlib.util.spec_from_file_location("triton_optimisers", _at)
assert _spec is not None
assert _spec.loader is not None
plain = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(plain)


@pytest.mark.parametrize("sizes", [*plain.SHAPES.values(), (36, 8192, 64)])
@pytest.mark.parametrize("kind", plain.KINDS)
def test_a_kernel_is_the_plain_form(kind, sizes):
    assert plain.KINDS[kind](*sizes, device="cuda") < 1e-5


@pytest.mark.parametrize("optimiser", list(OPTIMISERS))
def test_steps_of_a_graph_are_the_steps_without_one(optimiser):
    def run(lr):
        train = {"lr": lr, "steps": 20, "batch": 16, "optimiser": optimiser, "clip": 1.0,
                 "groups": {"layers.0.*": {"lr": 0.5}}}  # fmt: skip
        task = {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 64}
        return RunSpec.model_validate({"task": task, "model": {"width": 16, "layers": 2}, "train": train})

    cohorts = [Cohort([run(1e-3), run(1e-2)], torch.device("cuda")) for _ in range(2)]
    for step in range(8):
        cohorts[0].replay(cohorts[0].inputs(step))
        cohorts[1]._step(cohorts[1].inputs(step))
    assert cohorts[0].replay.graph is not None, "the step cannot be captured"
    for name, p in cohorts[0].members.params.items():
        torch.testing.assert_close(p, cohorts[1].members.params[name], rtol=1e-3, atol=1e-5)
