"""State-space duality: the chunked form is the recurrence, and holds at extremes and among other members."""

import pytest
import torch
from torch import Tensor
from torch.func import vmap

from recollect.ops.recurrence import segment_sum
from recollect.ops.ssd import CHUNK, ssd, ssd_definition

NAMES = ("y", "x", "log_a", "B", "C")


def inputs(*lead: int, length: int, shared: bool = True, kind=torch.float64) -> list[Tensor]:
    """x, log_a, B, C for a batch of 2 and 3 heads, B and C for each head or shared, with leading axes `lead`."""
    torch.manual_seed(length)
    row = (*lead, 2, length)
    x, log_a = torch.randn(*row, 3, 5, dtype=kind), -torch.rand(*row, 3, dtype=kind)
    B, C = (torch.randn(*row, 1 if shared else 3, 4, dtype=kind) for _ in range(2))
    return [x, log_a, B, C]


def results(op, tensors: list[Tensor]) -> list[Tensor]:
    """The output of `op` and its gradients, of a loss that weighs every position, head and channel differently."""
    leaves = [t.clone().requires_grad_() for t in tensors]
    y = op(*leaves)
    weights = torch.linspace(-1, 1, y.shape[-3:].numel(), dtype=y.dtype).view(y.shape[-3:])
    return [y, *torch.autograd.grad((y * weights).sum(), leaves)]


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("length", [1, 2, 63, CHUNK, 65, 257])
def test_chunked_form_is_the_recurrence(length, shared):
    tensors = inputs(length=length, shared=shared)
    expected, got = results(ssd_definition, tensors), results(ssd, tensors)
    for name, a, b in zip(NAMES, got, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9, msg=lambda m, name=name: f"{name}: {m}")


@pytest.mark.parametrize("length", [9, 70])
def test_a_member_is_the_same_to_the_bit_among_any_others(length):
    tensors = inputs(8, length=length, kind=torch.float32)
    among = {size: results(vmap(ssd), [t[:size] for t in tensors]) for size in (2, 3, 8)}
    for size in (2, 3):
        for name, few, many in zip(NAMES, among[size], among[8], strict=True):
            assert torch.equal(few, many[:size]), f"{name} differs between {size} and 8 members"


def test_without_decay_it_is_linear_attention():
    x, log_a, B, C = inputs(length=130, shared=False)
    scores = torch.einsum("bthn,bshn->bhts", C, B).tril()
    expected = torch.einsum("bhts,bshp->bthp", scores, x)
    torch.testing.assert_close(ssd(x, torch.zeros_like(log_a), B, C), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("log_a", [-1e-30, -1e-3, -1e3, -1e30])
def test_extreme_decays_stay_finite_and_right(log_a):
    tensors = inputs(length=130, kind=torch.float32)
    tensors[1] = torch.full_like(tensors[1], log_a)
    expected, got = results(ssd_definition, tensors), results(ssd, tensors)
    for name, a, b in zip(NAMES, got, expected, strict=True):
        assert a.isfinite().all(), name
        assert (a - b).norm() <= 1e-5 * b.norm(), name


def test_small_decays_survive_behind_a_large_one():
    log_a = torch.tensor([-1e6, -1e-3, -2e-3], dtype=torch.float32)
    torch.testing.assert_close(segment_sum(log_a)[2, 0], torch.tensor(-3e-3), rtol=1e-6, atol=0)


def test_a_long_row_stays_finite():
    x, log_a, B, C = inputs(length=4096, kind=torch.float32)
    for tensor in results(ssd, [x, 1e-4 * log_a, B, C]):
        assert tensor.isfinite().all()


def test_half_precision_is_summed_in_single():
    short = [t.to(torch.float16) for t in inputs(length=200, kind=torch.float32)]
    y = ssd(*short)
    assert y.dtype == torch.float16
    exact = ssd_definition(*(t.double() for t in short))
    assert (y - exact).abs().max() < 2e-3 * exact.abs().max()
