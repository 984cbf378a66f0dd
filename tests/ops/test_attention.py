"""Attention: the flash kernels against the definition, in cohorts to the bit, and dropout."""

import math

import pytest
import torch
from torch.func import vmap

from recollect.ops.attention import attention, attention_definition
from recollect.rng import dropping

LENGTHS = (1, 2, 63, 65, 257)


def with_gradients(function, *inputs):
    """The result, and the gradients of a random weighting of it to every input (one for each member, if any)."""
    inputs = [x.detach().clone().requires_grad_() for x in inputs]
    y = function(*inputs)
    weights = torch.randn(y.shape[-4:], dtype=y.dtype, generator=torch.Generator().manual_seed(9))
    return [y.detach(), *torch.autograd.grad((y * weights).sum(), inputs)]


def qkv(*shape, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, dtype=dtype, generator=generator) for _ in range(3)]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(("heads", "dim"), [(1, 8), (3, 5), (2, 1), (2, 33)])
def test_flash_is_the_definition(length, heads, dim):
    inputs = qkv(2, heads, length, dim)
    fast, plain = with_gradients(attention, *inputs), with_gradients(attention_definition, *inputs)
    for got, expected in zip(fast, plain, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)


def test_definition_is_the_formula():
    q, k, v = qkv(1, 1, 4, 3)
    bias = torch.randn(1, 4, 4, dtype=torch.float64)
    for t in range(4):
        scores = [math.exp((q[0, 0, t] @ k[0, 0, s]).item() / 3**0.5 + bias[0, t, s].item()) for s in range(t + 1)]
        expected = sum(w * v[0, 0, s] for s, w in enumerate(scores)) / sum(scores)
        for function in (attention, attention_definition):
            torch.testing.assert_close(function(q, k, v, bias)[0, 0, t], expected, rtol=1e-12, atol=1e-12)


def test_one_query_sees_all_the_keys_so_far():
    q, k, v = qkv(2, 3, 7, 4)
    torch.testing.assert_close(attention(q[:, :, -1:], k, v), attention(q, k, v)[:, :, -1:])


@pytest.mark.parametrize("length", [1, 33, 65])
@pytest.mark.parametrize(("heads", "dim"), [(2, 8), (3, 5)])
def test_members_get_the_same_bits_among_any_others(length, heads, dim):
    inputs = qkv(8, 3, heads, length, dim, dtype=torch.float32)
    among = {n: with_gradients(vmap(attention), *(x[:n] for x in inputs)) for n in (1, 2, 3, 8)}
    for n in (1, 2, 3):
        for got, expected in zip(among[n], among[8], strict=True):
            assert torch.equal(got, expected[:n])
    for i in range(8):
        for got, expected in zip(among[8], with_gradients(attention, *(x[i] for x in inputs)), strict=True):
            torch.testing.assert_close(got[i], expected, rtol=1e-5, atol=1e-5)


def test_members_may_share_keys():
    q, k, v = qkv(5, 2, 3, 9, 4)

    def one_by_one(q, k, v):
        return torch.stack([attention_definition(a, k, b) for a, b in zip(q, v, strict=True)])

    together = with_gradients(vmap(attention, in_dims=(0, None, 0)), q, k[0], v)
    plain = with_gradients(one_by_one, q, k[0], v)
    for got, expected in zip(together, plain, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_large_scores_stay_finite(dtype):
    q, k, v = qkv(2, 2, 65, 8, dtype=dtype)
    for value in with_gradients(attention, 1e3 * q, 1e3 * k, v):
        assert value.isfinite().all()


def test_dropout_hides_a_share_of_the_past_in_training_only():
    q, k, _ = qkv(64, 1, 65, 4)
    ones = torch.ones_like(q)
    torch.testing.assert_close(attention(q, k, ones, drop=0.25), ones)
    with dropping(torch.tensor(7)):
        dropped = attention(q, k, ones, drop=0.25)
    with dropping(torch.tensor(7)):
        again = attention(q, k, ones, drop=0.25)
    assert torch.equal(dropped, again)
    assert dropped.mean().item() == pytest.approx(1, abs=0.01)
    first = dropped[:, 0, 0, 0]  # the first token has one weight: dropped, or scaled
    assert set(first.tolist()) == {0.0, 1 / 0.75}
