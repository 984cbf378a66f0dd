"""The LRU's scan: chunks of real numbers give the complex recurrence."""

import pytest
import torch
from torch import Tensor
from torch.func import vmap

from recollect.ops.diagonal_scan import diagonal_scan, diagonal_scan_step
from recollect.ops.recurrence import over_time


def inputs(length: int, lead: tuple[int, ...] = (2,), dtype: torch.dtype = torch.float64) -> list[Tensor]:
    draw = torch.Generator().manual_seed(length)
    u = torch.randn(*lead, length, 3, 2, generator=draw, dtype=dtype)
    decay, angle = (torch.rand(*lead[:-1], 3, generator=draw, dtype=dtype) for _ in range(2))
    return [t.requires_grad_() for t in (u, 0.5 * decay, 6.28 * angle)]


def by_steps(u: Tensor, decay: Tensor, angle: Tensor) -> Tensor:
    return over_time(lambda u_t, h: diagonal_scan_step(u_t, decay, angle, h), torch.zeros_like(u[:, 0]), u, dim=1)


@pytest.mark.parametrize("form", [diagonal_scan, by_steps])
@pytest.mark.parametrize("length", [1, 2, 31, 32, 33, 100])
def test_both_forms_are_the_complex_recurrence(length, form):
    u, decay, angle = tensors = inputs(length)
    h, rate, expected = 0, torch.exp(torch.complex(-decay, angle)), []
    for u_t in torch.view_as_complex(u).unbind(1):
        h = rate * h + u_t
        expected.append(torch.view_as_real(h))
    y, slow = form(*tensors), torch.stack(expected, dim=1)
    torch.testing.assert_close(y, slow, rtol=1e-10, atol=1e-10)
    weight = torch.randn(y.shape, generator=torch.Generator().manual_seed(1), dtype=y.dtype)
    for a, b in zip(*(torch.autograd.grad((t * weight).sum(), tensors) for t in (y, slow)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_a_member_has_the_same_bits_among_any_others():
    tensors = [t.detach() for t in inputs(37, (8, 2), torch.float32)]
    seen = []
    for members in (2, 3, 8):
        own = [t[:members].clone().requires_grad_() for t in tensors]
        y = vmap(diagonal_scan)(*own)
        seen.append([t[:2] for t in (y, *torch.autograd.grad(y.square().sum(), own))])
    for others in seen[1:]:
        assert all(torch.equal(a, b) for a, b in zip(seen[0], others, strict=True))


def test_what_hardly_decays_and_what_decays_at_once_stay_finite():
    u, _, angle = (t.detach() for t in inputs(2000, dtype=torch.float32))
    leaves = [u.requires_grad_(), torch.tensor([1e-7, 1.0, 200.0]).requires_grad_(), angle.requires_grad_()]
    y = diagonal_scan(*leaves)
    assert all(t.isfinite().all() for t in (y, *torch.autograd.grad(y.square().mean(), leaves)))
