"""The short convolution: its fast form against its definition, and its step."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch.func import vmap

from recollect.mixers.base import map_flops
from recollect.ops.short_conv import ShortConv, short_conv, short_conv_definition
from recollect.spec import SpecError

LENGTHS = (1, 2, 63, 65, 257)


def with_gradients(function, *inputs):
    """The result, and the gradients of a random weighting of it to every input."""
    inputs = [x.detach().clone().requires_grad_() for x in inputs]
    y = function(*inputs)
    weights = torch.randn(y.shape, dtype=y.dtype, generator=torch.Generator().manual_seed(9))
    return [y.detach(), *torch.autograd.grad((y * weights).sum(), inputs)]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(("channels", "kernel"), [(6, 4), (5, 3), (1, 1), (7, 9)])
@pytest.mark.parametrize("activation", ["none", "silu"])
def test_fast_is_the_definition(length, channels, kernel, activation):
    torch.manual_seed(0)
    x = torch.randn(3, length, channels, dtype=torch.float64)
    w, b = torch.randn(channels, kernel, dtype=torch.float64), torch.randn(channels, dtype=torch.float64)
    fast, definition = (partial(form, activation=activation) for form in (short_conv, short_conv_definition))
    for inputs in ((x, w), (x, w, b)):
        for got, expected in zip(with_gradients(fast, *inputs), with_gradients(definition, *inputs), strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)


def test_the_activation_follows_the_bias():
    x, w, b = (torch.randn(*shape, dtype=torch.float64) for shape in ((2, 7, 3), (3, 4), (3,)))
    torch.testing.assert_close(short_conv(x, w, b, "silu"), F.silu(short_conv(x, w) + b))


def test_last_tap_is_the_present_token():
    x = torch.randn(1, 5, 2, dtype=torch.float64)
    now = torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, 2.0]], dtype=torch.float64)
    torch.testing.assert_close(short_conv(x, now), x * torch.tensor([1.0, 2.0], dtype=torch.float64))
    before = short_conv(x, now.roll(-1, dims=1))
    torch.testing.assert_close(before[:, 1:], x[:, :-1] * torch.tensor([1.0, 2.0], dtype=torch.float64))
    assert (before[:, 0] == 0).all()


@pytest.mark.parametrize("kernel", [1, 2, 4])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ["none", "silu"])
def test_step_is_forward(kernel, bias, activation):
    module = ShortConv(5, kernel, bias, activation).double()
    x = torch.randn(2, 9, 5, dtype=torch.float64)
    state, steps = module.initial_state(2), []
    for x_t in x.unbind(1):
        y, state = module.step(x_t, state)
        steps.append(y)
    assert state.shape == (2, kernel - 1, 5)
    torch.testing.assert_close(torch.stack(steps, dim=1), module(x), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("length", [1, 2, 3, 9])
@pytest.mark.parametrize("kernel", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("activation", ["none", "silu"])
def test_the_centred_form_is_conv1d_with_the_same_length(kernel, activation, length):
    module = ShortConv(5, kernel, activation=activation, causal=False).double()
    x = torch.randn(2, length, 5, dtype=torch.float64)
    left = (kernel - 1) // 2
    padded = F.pad(x.mT, (left, kernel - 1 - left))  # as padding="same" does, which warns where a kernel is even
    expected = F.conv1d(padded, module.weight[:, None], module.bias, groups=5).mT
    torch.testing.assert_close(module(x), F.silu(expected) if activation == "silu" else expected)


def test_the_centred_form_has_no_step():
    module = ShortConv(5, 3, causal=False)
    with pytest.raises(SpecError, match="3 taps reads tokens that come later, so it has no recurrent form"):
        module.step(torch.zeros(1, 5), module.initial_state(1))


def test_members_get_their_own_filters_and_the_same_bits_among_any_others():
    torch.manual_seed(0)
    x, w, b = torch.randn(8, 3, 65, 5), torch.randn(8, 5, 4), torch.randn(8, 5)
    activated = partial(short_conv, activation="silu")
    among = {n: with_gradients(vmap(activated), x[:n], w[:n], b[:n])[0] for n in (2, 3, 8)}
    for n in (2, 3):
        assert torch.equal(among[n], among[8][:n])
    for i in range(8):
        torch.testing.assert_close(among[8][i], activated(x[i], w[i], b[i]))


def test_operations_are_counted():
    assert map_flops(10, ShortConv(6, 4)) == 2 * 10 * 6 * 4
