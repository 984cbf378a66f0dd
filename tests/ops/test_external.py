"""Another library's kernels serve an op only where they are known to be right, agree with ours and take less time."""

import builtins
import json
import sys
import time
import warnings
from importlib import import_module
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import vmap

from recollect.ops import external
from recollect.ops.channel_delta_rule import _by_head, channel_delta_rule_definition
from recollect.ops.delta_rule import _gated, _plain, delta_rule_definition
from recollect.ops.gated_linear_attention import _either as _gla
from recollect.ops.gated_linear_attention import gated_linear_attention_definition
from recollect.ops.op import op
from recollect.ops.ssd import _ssd, ssd_definition

CUDA, CPU = torch.device("cuda"), torch.device("cpu")


@pytest.fixture
def machine(monkeypatch):
    """Says which library, Triton and GPU there are."""

    def have(fla: str = "0.6.0", triton: str = "3.7.1", capability: tuple[int, int] = (9, 0)) -> None:
        monkeypatch.setattr(external, "VERSION", fla)
        monkeypatch.setattr(external, "INSTALLED", external._numbers(fla) >= (0, 6))
        monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(__version__=triton))
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)

    monkeypatch.delenv("RECOLLECT_EXTERNAL", raising=False)
    return have


@pytest.mark.parametrize("op", ["delta_rule", "gated_delta_rule", "ssd"])
@pytest.mark.parametrize("triton", ["3.4.0", "3.5.1", "3.6.0+git1", "3.7.0"])
def test_versions_with_wrong_gradients_on_hopper_are_not_tried(op, triton, machine):
    machine(triton=triton)
    assert not external.usable(op, CUDA)


@pytest.mark.parametrize(
    ("triton", "capability"), [("3.3.1", (9, 0)), ("3.7.1", (9, 0)), ("3.9.0", (9, 0)), ("3.5.0", (8, 0))]
)
def test_other_versions_and_other_gpus_are_tried(triton, capability, machine):
    machine(triton=triton, capability=capability)
    assert all(external.usable(op, CUDA) for op in external.OFFERS)


def test_decays_of_their_own_for_every_channel_are_right_on_hopper_too(machine):
    machine(triton="3.5.0")
    assert external.usable("gated_linear_attention", CUDA)


def test_they_need_cuda_a_recent_version_and_a_user_who_wants_them(machine, monkeypatch):
    machine()
    assert external.usable("ssd", CUDA)
    assert not external.usable("ssd", CPU)
    for version in ("0.5.2", ""):
        machine(fla=version)
        assert not external.usable("ssd", CUDA)
    machine()
    monkeypatch.setenv("RECOLLECT_EXTERNAL", "0")
    assert not external.usable("ssd", CUDA)


# An op that doubles, and a library that doubles too: each reports who ran and takes a given time.


class Library(torch.autograd.Function):
    factor, seconds = 2.0, 0.0

    @staticmethod
    def forward(ctx, x):
        ran.append("theirs")
        time.sleep(Library.seconds)
        return Library.factor * x

    @staticmethod
    def backward(ctx, *grads):
        ran.append("their gradient")
        return Library.factor * grads[0]


ran: list[str] = []
OURS = 0.01  # seconds


def _forward(x: Tensor) -> tuple[Tensor, Tensor]:
    ran.append("ours")
    time.sleep(OURS)
    return 2 * x, x.new_zeros(x.shape[0])


def _backward(grad: Tensor, x: Tensor, y: Tensor, kept: Tensor) -> tuple[Tensor]:
    ran.append("our gradient")
    return (2 * grad,)


def _fake(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), x.new_empty(x.shape[0])


double = op("test_double", *external.offered("double", _forward, _backward, _fake), _fake)


def _seconds(run) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


@pytest.fixture
def library(monkeypatch):
    monkeypatch.setitem(external.OFFERS, "double", ("a_library", "doubled", ("x",)))
    monkeypatch.setitem(sys.modules, "a_library", SimpleNamespace(doubled=lambda x, scale: (Library.apply(x), None)))
    monkeypatch.setattr(external, "VERSION", "1.2.3")
    monkeypatch.setattr(external, "usable", lambda op, device: True)
    monkeypatch.setattr(external, "_milliseconds", _seconds)
    monkeypatch.setattr(external, "_choices", {})
    monkeypatch.setattr(Library, "factor", 2.0)
    monkeypatch.setattr(Library, "seconds", 0.0)


def who_serves(x: Tensor) -> list[str]:
    """Who computes a cohort's result and gradient, once the choice is made; the numbers are right in any case."""
    vmap(double)(x)
    ran.clear()
    leaf = x.clone().requires_grad_()
    y = vmap(double)(leaf)[0]
    (grad,) = torch.autograd.grad(y.sum(), leaf)
    torch.testing.assert_close(y.detach(), 2 * x)
    torch.testing.assert_close(grad, torch.full_like(x, 2))
    return list(ran)


X = torch.linspace(-1, 1, 24, dtype=torch.float16).view(2, 1, 3, 4)


def test_the_faster_serves(library, monkeypatch):
    assert who_serves(X) == ["theirs", "theirs", "their gradient"]
    monkeypatch.setattr(Library, "seconds", 3 * OURS)
    assert who_serves(X) == ["theirs", "theirs", "their gradient"], "the choice is made once a shape"
    assert who_serves(X[:, :, :2]) == ["ours", "our gradient"]


@pytest.mark.parametrize("factor", [2.2, float("nan")])
def test_one_that_disagrees_is_refused_aloud(factor, library, monkeypatch):
    monkeypatch.setattr(Library, "factor", factor)
    with pytest.warns(UserWarning, match=r"flash-linear-attention 1\.2\.3: double differs from ours by (0\.1|nan)"):
        assert who_serves(X) == ["ours", "our gradient"]


def test_one_that_fails_is_refused_aloud(library, monkeypatch):
    monkeypatch.setitem(sys.modules, "a_library", SimpleNamespace())
    with pytest.warns(UserWarning, match="double fails .AttributeError"):
        assert who_serves(X) == ["ours", "our gradient"]


def test_a_diverged_member_accuses_nobody(library):
    ours = torch.tensor([1.0, float("nan"), float("inf")])
    assert external._relative_error(torch.tensor([1.0, 5.0, float("nan")]), ours) == 0
    assert external._relative_error(torch.tensor([float("nan"), 5.0, 5.0]), ours).isnan()


def test_long_numbers_stay_with_us(library):
    assert who_serves(X.float()) == ["ours", "our gradient"]


def test_nothing_is_tried_that_is_not_usable(library, monkeypatch):
    monkeypatch.setattr(external, "usable", lambda op, device: False)
    assert who_serves(X) == ["ours", "our gradient"]


# The library itself, in Triton's interpreter: what is called is what our ops define.


def head_first(definition):
    return lambda *tensors: definition(*(t.transpose(1, 2) for t in tensors)).transpose(1, 2)


def kda_definition(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_alpha: Tensor) -> Tensor:
    beta = beta[..., None]
    return channel_delta_rule_definition(q, k, beta * v, beta * k, log_alpha)


def cases() -> dict[str, tuple]:
    """The op, its definition and the tensors of two members; B and C of ssd are shared by its heads."""
    torch.manual_seed(0)
    lead = (2, 1, 70, 2)
    q, k, v = (F.normalize(torch.randn(*lead, 16), dim=-1).half() for _ in range(3))
    beta, log_alpha, log_alphas = torch.rand(lead), -torch.rand(lead), -torch.rand(*lead, 16)
    delta = head_first(delta_rule_definition)
    return {
        "delta_rule": (_plain, delta, [q, k, v, beta]),
        "gated_delta_rule": (_gated, delta, [q, k, v, beta, log_alpha]),
        "ssd": (_ssd, ssd_definition, [v, log_alpha, k[:, :, :, :1], q[:, :, :, :1]]),
        "gated_linear_attention": (_gla, head_first(gated_linear_attention_definition), [q, k, v, log_alphas]),
        "kda": (_by_head, head_first(kda_definition), [q, k, v, beta, log_alphas]),
    }


def results(op, tensors: list[Tensor]) -> list[Tensor]:
    leaves = [t.detach().requires_grad_() for t in tensors]
    y = vmap(op)(*leaves)
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    return [y, *torch.autograd.grad(y, leaves, weights)]


class Index(int):
    """A kernel's loop variable: the interpreter leaves it a plain number."""

    def to(self, dtype) -> "Index":
        return self


def interpretable() -> None:
    """Without a GPU nothing can be tuned, and loop variables must have a type to be cast from."""
    from triton.runtime.autotuner import Autotuner

    Autotuner._bench = lambda self, *args, **options: [1.0, 1.0, 1.0]
    for module, _, _ in external.OFFERS.values():
        import_module(module)
    for name, module in list(sys.modules.items()):
        if name.startswith("fla.ops"):
            module.__dict__["range"] = lambda *ends: map(Index, builtins.range(*map(int, ends)))


def errors(op, definition, tensors: list[Tensor]) -> list[float]:
    got = results(lambda *given: op(*given)[0], tensors)
    expected = results(definition, [t.double() for t in tensors])
    return [((a - b).norm() / b.norm()).item() for a, b in zip(got, expected, strict=True)]


@pytest.mark.long
@pytest.mark.parametrize("op", external.OFFERS)
def test_their_functions_are_our_definitions(op, request):
    pytest.importorskip("fla", reason="flash-linear-attention is not installed")
    measured = request.getfixturevalue("measured")
    assert all(error < 2e-3 for error in measured[op]), measured[op]


if __name__ == "__main__":
    warnings.filterwarnings("ignore", category=UserWarning, module="fla")  # it misses a GPU
    interpretable()
    external.usable = lambda op, device: True
    times = iter((0.0, 1.0) * len(external.OFFERS))  # theirs is timed first, and wins
    external._milliseconds = lambda run: next(times)
    found = {name: errors(*case) for name, case in cases().items()}
    assert list(external._choices.values()) == [True] * len(external.OFFERS), "ours were measured"
    json.dump(found, sys.stdout)
