"""The selective scan: its fast form is the recurrence, and holds at extremes and among other members."""

import pytest
import torch
from torch import Tensor
from torch.func import vmap

from recollect.ops.selective_scan import CHUNK, selective_scan, selective_scan_definition

NAMES = ("y", "x", "dt", "bias", "A", "B", "C", "D")


def inputs(*lead: int, length: int, channels: int = 5, n: int = 3, kind=torch.float64) -> list[Tensor]:
    """x, dt, bias, A, B, C, D for a batch of 2 with leading axes `lead`."""
    torch.manual_seed(length)
    row = (*lead, 2, length)
    x, dt, B, C = (torch.randn(*row, size, dtype=kind) for size in (channels, channels, n, n))
    bias, D = (torch.randn(*lead, channels, dtype=kind) for _ in range(2))
    A = -4 * torch.rand(*lead, channels, n, dtype=kind)
    return [x, dt, bias - 1, A, B, C, D]


def results(op, tensors: list[Tensor]) -> list[Tensor]:
    """The output of `op` and its gradients, of a loss that weighs every position and channel differently."""
    leaves = [t.clone().requires_grad_() for t in tensors]
    y = op(*leaves)
    weights = torch.linspace(-1, 1, y.shape[-2:].numel(), dtype=y.dtype).view(y.shape[-2:])
    return [y, *torch.autograd.grad((y * weights).sum(), leaves)]


@pytest.mark.parametrize("length", [1, 2, CHUNK, 63, 65, 257])
def test_fast_form_is_the_recurrence(length):
    tensors = inputs(length=length)
    expected, got = results(selective_scan_definition, tensors), results(selective_scan, tensors)
    for name, a, b in zip(NAMES, got, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9, msg=lambda m, name=name: f"{name}: {m}")


@pytest.mark.parametrize("channels", [5, 24])
def test_a_member_is_the_same_to_the_bit_among_any_others(channels):
    tensors = inputs(8, length=19, channels=channels, n=3, kind=torch.float32)
    among = {size: results(vmap(selective_scan), [t[:size] for t in tensors]) for size in (2, 3, 8)}
    for size in (2, 3):
        for name, few, many in zip(NAMES, among[size], among[8], strict=True):
            assert torch.equal(few, many[:size]), f"{name} differs between {size} and 8 members"


def test_members_get_what_they_get_alone():
    tensors = inputs(3, length=33)
    together = results(vmap(selective_scan), tensors)
    for member in range(3):
        alone = results(selective_scan, [t[member] for t in tensors])
        for a, b in zip(together, alone, strict=True):
            torch.testing.assert_close(a[member], b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dt", [-1e4, -69.0, -7.0, 1e3, 1e6])  # steps of 0, 1e-30, 1e-3, 1e3 and 1e6
def test_extreme_steps_stay_finite_and_right(dt):
    tensors = inputs(length=70, kind=torch.float32)
    tensors[0] /= max(dt, 1)  # what is written stays of ordinary size
    tensors[1] = torch.full_like(tensors[1], dt)
    expected, got = results(selective_scan_definition, tensors), results(selective_scan, tensors)
    for name, a, b in zip(NAMES, got, expected, strict=True):
        assert a.isfinite().all(), name
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, msg=lambda m, name=name: f"{name}: {m}")


def test_a_long_row_stays_finite():
    x, dt, *rest = inputs(length=4096, kind=torch.float32)
    for tensor in results(selective_scan, [x, dt - 9, *rest]):
        assert tensor.isfinite().all()


def test_half_precision_is_summed_in_single():
    tensors = inputs(length=200, kind=torch.float32)
    short = [t.to(torch.float16) for t in tensors]
    y = selective_scan(*short)
    assert y.dtype == torch.float16
    exact = selective_scan_definition(*(t.double() for t in short))
    assert (y - exact).abs().max() < 2e-3 * exact.abs().max()


def test_what_backward_keeps_grows_with_the_number_of_chunks_only():
    x, delta, _, A, B, C, _ = inputs(length=10 * CHUNK, channels=4, n=16)
    _, kept = torch.ops.recollect.selective_scan(*(t[None] for t in (x, delta, A, B, C)))
    assert kept.numel() == 10 * x.shape[0] * A.numel()
