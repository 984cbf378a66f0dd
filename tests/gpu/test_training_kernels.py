"""The kernels of attention, of the MLP, of the answers' loss and of AdamW, compiled, on a GPU; and a whole
cohort with them."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from recollect.mixers import MIXERS
from recollect.models.model import build
from recollect.models.spec import ModelSpec
from recollect.train.cohort import Cohort
from recollect.train.spec import RunSpec

if not torch.cuda.is_available():
    pytest.skip("compiled kernels need a GPU", allow_module_level=True)
pytest.importorskip("triton", reason="the kernels need Triton")
pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")

_at = Path(__file__).parents[1] / "ops" / "test_triton_training.py"
_spec = importlib.util.spec_from_file_location("triton_training", _at)
assert _spec is not None
assert _spec.loader is not None
plain = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(plain)

# The last ones of each are made of full blocks, as in training.
ATTENTION = [
    *plain.ATTENTION.values(), (3, 5, 64, 2, 32), (2, 3, 200, 3, 64), (1, 2, 257, 1, 128), (2, 2, 33, 4, 20), (2, 3, 256, 1, 128)
]  # fmt: skip
LOSS = [
    *plain.LOSS.values(), (3, 7, 4, 64, 8192), (2, 5, 16, 128, 1000), (1, 3, 5, 256, 777), (2, 32, 4, 64, 8192),
    (1, 16, 16, 128, 1024),
]  # fmt: skip
MLP = [
    *plain.MLP.values(), (3, 1000, 64, 256), (2, 300, 128, 512), (2, 130, 48, 192), (1, 9000, 128, 512), (2, 4096, 64, 256),
    (1, 8192, 128, 512),
]  # fmt: skip
PRECISIONS = [(torch.float32, 1e-4), (torch.bfloat16, 1e-2)]


@pytest.mark.parametrize("sizes", ATTENTION)
@pytest.mark.parametrize(("dtype", "allowed"), PRECISIONS)
def test_attention_is_its_definition(sizes, dtype, allowed):
    assert plain.attention_error(*sizes, dtype=dtype, device="cuda") < allowed


@pytest.mark.parametrize("sizes", LOSS)
@pytest.mark.parametrize(("dtype", "allowed"), PRECISIONS)
def test_the_answers_loss_is_its_definition(sizes, dtype, allowed):
    assert plain.loss_error(*sizes, dtype=dtype, device="cuda") < allowed


@pytest.mark.parametrize(("dtype", "allowed"), PRECISIONS)
def test_slopes_of_nearly_certain_answers_are_not_noise(dtype, allowed):
    assert plain.certain_error(dtype=dtype, device="cuda") < allowed


@pytest.mark.parametrize("sizes", MLP)
@pytest.mark.parametrize(("dtype", "allowed"), PRECISIONS)
def test_the_mlp_is_its_definition(sizes, dtype, allowed):
    assert plain.mlp_error(*sizes, dtype=dtype, device="cuda") < allowed


@pytest.mark.parametrize("shape", [*plain.ADAMW.values(), (36, 8192, 64), (5,)])
def test_adamw_is_its_plain_form(shape):
    assert plain.adamw_error(*shape, device="cuda") < 1e-5


def cohort_losses(mixer: str, precision: str, steps: int, compiled: bool = False) -> torch.Tensor:
    task, model = {"kind": "mqar", "length": 32, "pairs": 4, "vocab": 256}, {"mixer": mixer, "width": 64, "layers": 2}
    train = {"steps": 100, "batch": 32, "precision": precision}
    runs = [RunSpec(task=task, model=model, train=train | {"lr": lr, "seed": 1}) for lr in (1e-4, 1e-3, 3e-3)]
    cohort, found = Cohort(runs, torch.device("cuda")), []
    if compiled:
        cohort.compile()
    for step in range(steps):
        inputs = cohort.inputs(step)
        ((members, gradients),) = cohort.gradients(inputs)
        cohort.move(members, gradients, inputs)
        found.append(gradients.losses)
    return torch.stack(found)


@pytest.mark.parametrize("mixer", sorted(MIXERS))
def test_a_model_gives_on_a_gpu_what_it_gives_on_the_cpu(mixer):
    torch.set_float32_matmul_precision("highest")
    model = build(ModelSpec(mixer=mixer, width=32, layers=2), vocabulary=64, length=40, seed=1)
    tokens = torch.arange(80).view(2, 40) * 37 % 64
    found = []
    for device in ("cpu", "cuda"):
        logits = model.to(device)(tokens.to(device))
        grads = torch.autograd.grad(logits.square().sum(), list(model.parameters()), materialize_grads=True)
        found.append([logits.detach().cpu(), *(g.cpu() for g in grads)])
    names = ["logits", *(name for name, _ in model.named_parameters())]
    for name, there, here in zip(names, found[1], found[0], strict=True):
        off = ((there - here).norm() / here.norm().clamp(min=1e-3)).item()
        assert off < 2e-3, f"{name} is off by {off}"


def test_memory_is_measured_in_a_process_that_has_not_used_the_gpu_yet():
    code = """if True:
        import torch
        from recollect.train.speed.memory import members_that_fit
        from recollect.train.spec import RunSpec
        task = {"kind": "mqar", "length": 16, "pairs": 4, "vocab": 32}
        model = {"mixer": "attention", "width": 16, "layers": 1}
        run = RunSpec(task=task, model=model, train={"lr": 1e-3, "seed": 1, "steps": 10, "batch": 8})
        print(members_that_fit(run, torch.device("cuda")))
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 4


@pytest.mark.parametrize("mixer", ["attention", "mamba", "mamba2", "deltanet", "linear_attention", "hyena"])
def test_a_cohort_with_kernels_trains_as_one_without(mixer, monkeypatch):
    with_kernels = cohort_losses(mixer, "float32", 10)
    monkeypatch.setenv("RECOLLECT_TRITON", "0")
    torch.testing.assert_close(with_kernels, cohort_losses(mixer, "float32", 10), rtol=2e-3, atol=2e-3)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mixer", ["attention", "mamba2"])
def test_a_compiled_cohort_trains_as_one_that_is_not(mixer):
    plainly = cohort_losses(mixer, "bfloat16", 10)
    torch.testing.assert_close(cohort_losses(mixer, "bfloat16", 10, compiled=True), plainly, rtol=2e-2, atol=2e-2)


def assert_same_sums(one: Cohort, other: Cohort) -> None:
    """Steps, losses and norms are the same but for the order of sums; of 128 answers a step a few in all may turn with it."""
    hits, exact = 2, [0, 1, 3]
    torch.testing.assert_close(one.members.sums[:, exact], other.members.sums[:, exact], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(one.members.sums[:, hits], other.members.sums[:, hits], rtol=0, atol=3 / 128)


@pytest.mark.filterwarnings("ignore")
def test_a_step_recorded_as_a_graph_is_the_step():
    task, model = (
        {"kind": "mqar", "length": 32, "pairs": 4, "vocab": 256},
        {"mixer": "attention", "width": 64, "layers": 2},
    )
    train = {"steps": 100, "batch": 32, "precision": "bfloat16", "clip": 1.0}
    runs = [RunSpec(task=task, model=model, train=train | {"lr": lr, "seed": 1}) for lr in (1e-4, 1e-3, 3e-3)]
    recorded, plainly = (Cohort(runs, torch.device("cuda")) for _ in range(2))
    for cohort in (recorded, plainly):
        cohort.compile()
    plainly.replay.able = False
    for step in range(8):
        for cohort in (recorded, plainly):
            cohort.advance(step)
    assert recorded.replay.graph is not None
    assert_same_sums(recorded, plainly)
    for cohort in (recorded, plainly):
        cohort.keep([0, 2])  # members leave: it is recorded anew
    for step in range(8, 14):
        for cohort in (recorded, plainly):
            cohort.advance(step)
    assert_same_sums(recorded, plainly)
