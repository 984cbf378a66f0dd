"""Linear attention: the chunked form is the recurrence, and stays finite where its divisor nearly vanishes."""

import pytest
import torch
from torch import Tensor
from torch.func import vmap
from torch.utils.flop_counter import FlopCounterMode

from recollect.ops.linear_attention import (
    feature_size,
    features,
    linear_attention,
    linear_attention_definition,
    linear_attention_flops,
)

FEATURES = ["elu", "relu", "identity", "taylor"]


def numbers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def inputs(length: int, dim: int = 5, dim_v: int = 7, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    return [
        numbers(2, 3, length, size, seed=i, dtype=dtype).requires_grad_() for i, size in enumerate((dim, dim, dim_v))
    ]


@pytest.mark.parametrize("length", [1, 2, 63, 65, 257])
@pytest.mark.parametrize(("feature", "normalise"), [*((f, f != "identity") for f in FEATURES), ("elu", False)])
def test_chunks_give_the_recurrence(feature, normalise, length):
    tensors = inputs(length)
    fast, slow = (op(*tensors, feature, normalise) for op in (linear_attention, linear_attention_definition))
    torch.testing.assert_close(fast, slow, rtol=1e-9, atol=1e-9)
    weight = numbers(*fast.shape, seed=9)
    for a, b in zip(*(torch.autograd.grad((y * weight).sum(), tensors) for y in (fast, slow)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_the_formula_written_out():
    q, k, v = (t.detach() for t in inputs(6))
    weights = (features(q, "elu") @ features(k, "elu").mT).tril()
    expected = weights @ v / (weights.sum(-1, keepdim=True) + 1e-6)
    torch.testing.assert_close(linear_attention(q, k, v, "elu"), expected)
    torch.testing.assert_close(features(q, "elu"), torch.nn.functional.elu(q) + 1)


def test_taylor_features_are_the_second_order_of_exp():
    q, k, _ = (t.detach() for t in inputs(6))
    s = q @ k.mT / 5**0.5
    assert features(q, "taylor").shape[-1] == feature_size("taylor", 5) == 31
    torch.testing.assert_close(features(q, "taylor") @ features(k, "taylor").mT, 1 + s + s**2 / 2)


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("scale", [0.0, 1e-20, 1e4, -1e4])
def test_finite_where_the_divisor_vanishes_or_is_large(feature, scale):
    q, k, v = inputs(300, dtype=torch.float32)
    y = linear_attention(q * abs(scale), k * scale, v, feature, normalise=True)
    grads = torch.autograd.grad(y.sum(), (q, k, v))
    assert all(t.isfinite().all() for t in (y, *grads))


def test_long_rows_are_finite():
    q, k, v = (numbers(1, 1, 4096, 8, seed=i, dtype=torch.float32).requires_grad_() for i in range(3))
    for feature in FEATURES:
        y = linear_attention(q, k, v, feature, feature != "identity")
        assert y.isfinite().all()
        assert all(g.isfinite().all() for g in torch.autograd.grad(y.square().sum(), (q, k, v)))


@pytest.mark.parametrize("feature", FEATURES)
def test_a_member_has_the_same_bits_among_any_others(feature):
    tensors = [numbers(8, 3, 2, 131, size, seed=i, dtype=torch.float32) for i, size in enumerate((5, 5, 7))]
    seen = []
    for members in (2, 3, 8):
        own = [t[:members].clone().requires_grad_() for t in tensors]
        y = vmap(lambda q, k, v: linear_attention(q, k, v, feature, feature != "identity"))(*own)
        seen.append([t[:2] for t in (y, *torch.autograd.grad(y.square().sum(), own))])
    for others in seen[1:]:
        assert all(torch.equal(a, b) for a, b in zip(seen[0], others, strict=True))


@pytest.mark.parametrize("length", [1, 64, 131])
@pytest.mark.parametrize("feature", FEATURES)
def test_flops_are_those_of_the_matrix_products(feature, length):
    q, k, v = inputs(length)
    with FlopCounterMode(display=False) as counter:
        linear_attention(q, k, v, feature, True)
    assert 2 * 3 * linear_attention_flops(length, 5, 7, feature, True) == counter.get_total_flops()


def test_half_precision_inputs_are_summed_in_float32():
    q, k, v = (t.detach().half() for t in inputs(257))
    y = linear_attention(q, k, v)
    assert y.dtype == torch.float16
    torch.testing.assert_close(y, linear_attention(q.float(), k.float(), v.float()).half())
