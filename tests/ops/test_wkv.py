"""WKV of RWKV-4, 6 and 7: the fast forms are their recurrences, at any length and for inputs of any size."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import vmap

from recollect.ops.recurrence import over_time
from recollect.ops.wkv import wkv, wkv_definition
from recollect.ops.wkv6 import wkv6, wkv6_step
from recollect.ops.wkv7 import wkv7, wkv7_step


def arguments(length: int, size: float = 1.0, channels: int = 5, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    w, u = torch.rand(channels, dtype=dtype) * 2, torch.randn(channels, dtype=dtype)
    k, v = size * torch.randn(3, length, channels, dtype=dtype), torch.randn(3, length, channels, dtype=dtype)
    return [t.requires_grad_() for t in (w, u, k, v)]


def arguments6(length: int, decay: float = 1.0, dim: int = 5, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    r, k, v, speed = (torch.randn(2, 3, length, d, dtype=dtype) for d in (dim, dim, dim + 3, dim))
    return [t.requires_grad_() for t in (r, k, v, -decay * speed.exp(), torch.randn(3, dim, dtype=dtype))]


def arguments7(length: int, decay: float = 0.6065, dim: int = 5, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    r, k, v, kappa = (torch.randn(2, 3, length, d, dtype=dtype) for d in (dim, dim, dim + 3, dim))
    rate, speed = torch.rand_like(r), torch.rand_like(r)
    kappa = F.normalize(kappa, dim=-1)
    return [t.requires_grad_() for t in (r, k, v, -decay * speed, -kappa, rate * kappa)]


def by_steps6(r: Tensor, k: Tensor, v: Tensor, log_w: Tensor, u: Tensor) -> Tensor:
    S = r.new_zeros(*r.shape[:2], r.shape[-1], v.shape[-1])
    return over_time(lambda r, k, v, log_w, S: wkv6_step(r, k, v, log_w, u, S), S, r, k, v, log_w, dim=2)


def by_steps7(r: Tensor, k: Tensor, v: Tensor, *others: Tensor) -> Tensor:
    return over_time(wkv7_step, r.new_zeros(*r.shape[:2], v.shape[-1], r.shape[-1]), r, k, v, *others, dim=2)


def direct(w: Tensor, u: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The formula, with every weight written out: a softmax over the tokens seen."""
    t = torch.arange(k.shape[1])
    apart = (t[:, None] - 1 - t)[None, :, :, None]
    past = (k[:, None] - apart * w).masked_fill(apart < 0, -torch.inf)  # (batch, t, i, channels)
    log_weights = torch.where(apart == -1, k[:, None] + u, past)
    return (log_weights.softmax(dim=2) * v[:, None]).sum(2)


@pytest.mark.parametrize("length", [1, 2, 63, 65, 257])
@pytest.mark.parametrize(
    ("fast", "slow", "arguments"),
    [
        (wkv, wkv_definition, lambda length: arguments(length, size=3)),
        (wkv, direct, lambda length: arguments(length, size=3)),
        (wkv, direct, lambda length: arguments(length, size=50)),
        (wkv6, by_steps6, arguments6),
        (wkv6, by_steps6, lambda length: arguments6(length, decay=1e-3)),
        (wkv7, by_steps7, arguments7),
        (wkv7, by_steps7, lambda length: arguments7(length, decay=1e-3)),
    ],
)
def test_fast_form_is_the_definition_forward_and_backward(
    fast: Callable, slow: Callable, arguments: Callable[[int], list[Tensor]], length: int
):
    leaves = arguments(length)
    y, wanted = fast(*leaves), slow(*leaves)
    weight = torch.randn_like(y)
    torch.testing.assert_close(y, wanted, rtol=0, atol=1e-9)
    grads, right = (
        torch.autograd.grad((t * weight).sum(), leaves, allow_unused=True, materialize_grads=True) for t in (y, wanted)
    )
    for got, want in zip(grads, right, strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=1e-9)


@pytest.mark.parametrize("size", [50, 1000])
def test_large_keys_and_long_rows_stay_finite(size: float):
    w, u, k, v = (t.detach() for t in arguments(4096, channels=4, dtype=torch.float32))
    leaves = [t.requires_grad_() for t in (w, size * u, size * k.sign(), v)]
    y = wkv(*leaves)
    assert y.abs().max() <= v.abs().max() * 1.0001  # an average
    assert all(g.isfinite().all() for g in torch.autograd.grad(y.sum(), leaves))


@pytest.mark.parametrize("decay", [1e-6, 50.0])
def test_version_6_stays_finite_with_decays_near_0_and_1(decay: float):
    leaves = arguments6(4096, decay=decay, dim=4, dtype=torch.float32)
    y = wkv6(*leaves)
    assert all(t.isfinite().all() for t in (y, *torch.autograd.grad(y.sum(), leaves)))


@pytest.mark.parametrize("decay", [1e-6, 0.6065])
def test_version_7_stays_finite_over_long_rows(decay: float):
    leaves = arguments7(4096, decay=decay, dim=4, dtype=torch.float32)
    y = wkv7(*leaves)
    assert all(t.isfinite().all() for t in (y, *torch.autograd.grad(y.sum(), leaves)))


@pytest.mark.parametrize("length", [9, 33])
@pytest.mark.parametrize(
    ("op", "member"),
    [
        (wkv, lambda length: arguments(length, channels=7, dtype=torch.float32)),
        (wkv6, lambda length: arguments6(length, dim=16, dtype=torch.float32)),
        (wkv7, lambda length: arguments7(length, dim=16, dtype=torch.float32)),
    ],
)
def test_a_members_bits_do_not_depend_on_the_others(op: Callable, member: Callable, length: int):
    stacked = [torch.stack(ts).detach() for ts in zip(*(member(length) for _ in range(8)), strict=True)]

    def run(few: slice) -> list[Tensor]:
        leaves = [t[few].clone().requires_grad_() for t in stacked]
        y = vmap(op)(*leaves)
        return [y, *torch.autograd.grad(y.square().sum(), leaves)]

    among_eight = run(slice(0, 8))
    for few in (slice(3, 5), slice(2, 5)):
        assert all(torch.equal(a, b[few]) for a, b in zip(run(few), among_eight, strict=True))
