"""The delta rule with decays per channel: the chunked form is the recurrence, also where decays are extreme."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import vmap
from torch.utils.flop_counter import FlopCounterMode

from recollect.ops.channel_delta_rule import (
    CHUNK,
    channel_delta_rule,
    channel_delta_rule_definition,
    channel_delta_rule_flops,
    gated_delta_rule_2,
    kda,
)
from recollect.ops.delta_rule import delta_rule, solve_flops


def inputs(length: int, dtype: torch.dtype = torch.float64, lead: tuple[int, ...] = (2, 3)) -> list[Tensor]:
    """q, k of length 1 and dim 5, v of dim 7, beta in (0, 2), log_alpha <= 0 between about -8 and 0."""
    draw = torch.Generator().manual_seed(length)
    q, k, v, beta, decay = (
        torch.randn(*lead, length, *size, generator=draw, dtype=dtype) for size in ((5,), (5,), (7,), (), (5,))
    )
    q, k = (F.normalize(t, dim=-1) for t in (q, k))
    return [t.requires_grad_() for t in (q, k, v, 2 * beta.sigmoid(), -(decay - 1).exp())]


def gradients(y: Tensor, tensors: list[Tensor]) -> tuple[Tensor, ...]:
    weight = torch.randn(y.shape, generator=torch.Generator().manual_seed(1), dtype=y.dtype)
    return torch.autograd.grad((y * weight).sum(), tensors)


def defined(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_alpha: Tensor) -> Tensor:
    beta = beta[..., None]
    return channel_delta_rule_definition(q, k, beta * v, beta * k, log_alpha)


@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 65])
def test_chunks_give_the_recurrence(length):
    tensors = inputs(length)
    fast, slow = kda(*tensors), defined(*tensors)
    torch.testing.assert_close(fast, slow, rtol=1e-9, atol=1e-9)
    for a, b in zip(gradients(fast, tensors), gradients(slow, tensors), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_equal_decays_give_the_gated_delta_rule():
    q, k, v, beta, log_alpha = inputs(70)
    same = log_alpha[..., :1].expand_as(log_alpha)
    torch.testing.assert_close(kda(q, k, v, beta, same), delta_rule(q, k, v, beta, same[..., 0]))


def test_gates_of_one_value_per_head_give_kda():
    q, k, v, beta, log_alpha = inputs(35)
    erase, write = (beta[..., None].expand_as(x) for x in (k, v))
    expected = kda(q, k, v, beta, log_alpha)
    torch.testing.assert_close(gated_delta_rule_2(q, k, v, erase, write, log_alpha), expected)
    torch.testing.assert_close(gated_delta_rule_2(q, k, write * v, erase, None, log_alpha), expected)


def test_extreme_decays_stay_finite_in_float32():
    q, k, v, beta, log_alpha = (t.detach() for t in inputs(600, torch.float32, (1, 2)))
    hard = (torch.arange(600) % 7 == 3)[:, None] & (torch.arange(5) % 2 == 0)
    tensors = [t.requires_grad_() for t in (q, k, v, beta, torch.where(hard, -300.0, 1e-3 * log_alpha))]
    y = kda(*tensors)
    assert all(t.isfinite().all() for t in (y, *gradients(y, tensors)))
    short = [t[:, :, :200].double() for t in tensors]
    torch.testing.assert_close(y[:, :, :200].double(), defined(*short), rtol=1e-3, atol=1e-3)


def test_a_member_has_the_same_bits_among_any_others():
    tensors = [t.detach() for t in inputs(37, torch.float32, (8, 2, 2))]
    seen = []
    for members in (2, 3, 8):
        own = [t[:members].clone().requires_grad_() for t in tensors]
        y = vmap(kda)(*own)
        seen.append([t[:2] for t in (y, *torch.autograd.grad(y.square().sum(), own))])
    for others in seen[1:]:
        assert all(torch.equal(a, b) for a, b in zip(seen[0], others, strict=True))


@pytest.mark.parametrize("length", [9, 16, 50])
def test_flops_are_those_of_the_products_the_scores_and_the_solve(length):
    q, k, v, _, log_alpha = inputs(length, lead=(1, 1))
    with FlopCounterMode(display=False) as counter:
        channel_delta_rule(q, k, v, k, log_alpha)
    chunk, chunks = min(CHUNK, length), -(-length // CHUNK)
    uncounted = chunks * (6 * 5 * chunk**2 + solve_flops(chunk, 7 if chunks == 1 else 12))
    assert channel_delta_rule_flops(length, 5, 7) == counter.get_total_flops() + uncounted
