"""Gated linear attention: the chunked form is the recurrence, and safe for decays of any size."""

import pytest
import torch
from torch import Tensor
from torch.func import vmap
from torch.utils.flop_counter import FlopCounterMode

from recollect.ops.gated_linear_attention import (
    gated_linear_attention,
    gated_linear_attention_definition,
    gated_linear_attention_flops,
)
from recollect.ops.ssd import ssd_definition


def inputs(length: int, dtype: torch.dtype = torch.float64, lead: tuple = (2, 3)) -> list[Tensor]:
    """q, k, v and log_alpha <= 0, from about -1e-3 to -20."""
    draw = torch.Generator().manual_seed(length)
    q, k, v, decay = (torch.randn(*lead, length, size, generator=draw, dtype=dtype) for size in (5, 5, 7, 5))
    return [t.requires_grad_() for t in (q, k, v, -(2 * decay - 2).exp())]


def gradients(y: Tensor, tensors: list[Tensor]) -> tuple[Tensor, ...]:
    weight = torch.randn(y.shape, generator=torch.Generator().manual_seed(1), dtype=y.dtype)
    return torch.autograd.grad((y * weight).sum(), tensors)


@pytest.mark.parametrize("length", [1, 2, 63, 65, 257])
def test_chunks_give_the_recurrence(length):
    tensors = inputs(length)
    fast, slow = gated_linear_attention(*tensors), gated_linear_attention_definition(*tensors)
    torch.testing.assert_close(fast, slow, rtol=1e-9, atol=1e-9)
    for a, b in zip(gradients(fast, tensors), gradients(slow, tensors), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_one_decay_for_all_channels_is_the_scalar_form():
    q, k, v, log_alpha = inputs(40)
    time_first = [t.transpose(1, 2) for t in (v, log_alpha[..., 0], k, q)]
    scalar = ssd_definition(*time_first).transpose(1, 2)
    torch.testing.assert_close(gated_linear_attention(q, k, v, log_alpha[..., :1].expand_as(q)), scalar)


def test_gates_at_their_ends_in_float32():
    q, k, v, log_alpha = (t.detach() for t in inputs(4096, torch.float32, (1, 2)))
    channel, token = torch.arange(5), torch.arange(4096)[:, None]
    ends = torch.where((token + channel) % 7 == 3, -600.0, 1e-6 * log_alpha)  # all is forgotten, or next to nothing
    tensors = [t.requires_grad_() for t in (q, k, v, ends)]
    y = gated_linear_attention(*tensors)
    assert all(t.isfinite().all() for t in (y, *gradients(y, tensors)))
    short = [t[:, :, :200].double() for t in tensors]
    torch.testing.assert_close(y[:, :, :200].double(), gated_linear_attention_definition(*short), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("length", [9, 131])
def test_a_member_has_the_same_bits_among_any_others(length):
    tensors = [t.detach() for t in inputs(length, torch.float32, (8, 3, 2))]
    seen = []
    for members in (2, 3, 8):
        own = [t[:members].clone().requires_grad_() for t in tensors]
        y = vmap(gated_linear_attention)(*own)
        seen.append([t[:2] for t in (y, *torch.autograd.grad(y.square().sum(), own))])
    for others in seen[1:]:
        assert all(torch.equal(a, b) for a, b in zip(seen[0], others, strict=True))


@pytest.mark.parametrize("length", [1, 16, 37])
def test_flops_are_those_of_the_products(length):
    with FlopCounterMode(display=False) as counter:
        gated_linear_attention(*inputs(length, lead=(1, 1)))
    pairs = length**2 if length <= 16 else 3 * 16**2
    assert gated_linear_attention_flops(length, 5, 7) == counter.get_total_flops() + 3 * 5 * pairs
