"""Activations: the usual functions, with bits that do not depend on where in a tensor a number is."""

import pytest
import torch
import torch.nn.functional as F
from torch.func import vmap

from recollect.ops.activations import gelu, sigmoid, silu, softplus

PAIRS = [(sigmoid, torch.sigmoid), (silu, F.silu), (softplus, F.softplus), (gelu, F.gelu)]


def with_gradient(function, x):
    x = x.detach().requires_grad_()
    y = function(x)
    return y.detach(), torch.autograd.grad((y * y.detach().cos()).sum(), x)[0]


@pytest.mark.parametrize(("ours", "usual"), PAIRS, ids=lambda f: f.__name__)
def test_they_are_the_usual_functions(ours, usual):
    x = torch.linspace(-30, 30, 1001, dtype=torch.float64)
    for got, expected in zip(with_gradient(ours, x), with_gradient(usual, x), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-7, atol=1e-12)
    big = torch.tensor([-1e30, -1e4, 1e4, 1e30])
    assert all(part.isfinite().all() for part in with_gradient(ours, big))


@pytest.mark.parametrize(("ours", "usual"), PAIRS, ids=lambda f: f.__name__)
def test_under_vmap_the_end_of_a_tensor_is_computed_like_its_middle(ours, usual):
    x = 3 * torch.randn(5000, 1, generator=torch.Generator().manual_seed(0))
    whole = with_gradient(vmap(ours), x)
    for n in (1, 2, 3, 7, 13, 31, 33, 63, 1001, 4099):
        for part, all_of_it in zip(with_gradient(vmap(ours), x[:n]), whole, strict=True):
            assert torch.equal(part, all_of_it[:n]), n


@pytest.mark.parametrize(("ours", "usual"), PAIRS, ids=lambda f: f.__name__)
def test_a_member_alone_takes_pytorchs_own(ours, usual):
    x = torch.randn(1001)
    for got, expected in zip(with_gradient(ours, x), with_gradient(usual, x), strict=True):
        assert torch.equal(got, expected)


def test_gelu_batches_under_vmap():
    x = torch.randn(3, 5, 7, dtype=torch.float64)
    for together, alone in zip(with_gradient(vmap(gelu), x), with_gradient(F.gelu, x), strict=True):
        torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)
