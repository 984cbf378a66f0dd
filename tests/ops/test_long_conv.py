"""The long convolution is the sum it says it is, at any length, among any other members."""

import pytest
import torch
from torch.func import vmap

from recollect.ops.long_conv import long_conv, long_conv_definition


@pytest.mark.parametrize("length", [1, 2, 63, 65, 257])
@pytest.mark.parametrize("taps", [1, 40, 300])
def test_fast_form_is_the_definition_forward_and_backward(length: int, taps: int):
    x = torch.randn(3, length, 5, dtype=torch.float64, requires_grad=True)
    filter = torch.randn(5, taps, dtype=torch.float64, requires_grad=True)
    weight = torch.randn_like(x)
    fast, slow = long_conv(x, filter), long_conv_definition(x, filter)
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-9)
    for got, wanted in zip(
        torch.autograd.grad((fast * weight).sum(), [x, filter]),
        torch.autograd.grad((slow * weight).sum(), [x, filter]),
        strict=True,
    ):
        torch.testing.assert_close(got, wanted, rtol=0, atol=1e-9)


@pytest.mark.parametrize("shape", [(1, 9, 5), (3, 9, 7), (2, 33, 17)])
def test_a_members_bits_do_not_depend_on_the_others(shape: tuple[int, int, int]):
    x = torch.randn(8, *shape)
    filter = torch.randn(8, shape[2], shape[1])

    def run(members: slice) -> list[torch.Tensor]:
        leaves = [t[members].clone().requires_grad_() for t in (x, filter)]
        y = vmap(long_conv)(*leaves)
        return [y, *torch.autograd.grad(y.square().sum(), leaves)]

    among_eight = run(slice(0, 8))
    for members in (slice(3, 4), slice(3, 5), slice(2, 5)):
        for few, many in zip(run(members), among_eight, strict=True):
            assert torch.equal(few, many[members])


def test_the_future_leaks_no_more_than_rounding():
    x, filter = torch.randn(2, 64, 6), torch.randn(6, 64)
    changed = x.clone()
    changed[:, 40:] += 100
    before = (long_conv(x, filter) - long_conv(changed, filter))[:, :40].abs().max()
    assert 0 <= before < 1e-3  # outputs after the change move by thousands


def test_long_and_large_rows_stay_finite():
    x = (1e4 * torch.randn(1, 4096, 3)).requires_grad_()
    filter = torch.randn(3, 4096, requires_grad=True)
    y = long_conv(x, filter)
    grads = torch.autograd.grad(y.sum(), [x, filter])
    assert all(t.isfinite().all() for t in (y, *grads))
