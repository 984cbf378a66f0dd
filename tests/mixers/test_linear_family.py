"""Linear attention, BaseConv and Based: their formulas, which layer holds what, wrong options."""

import math

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from recollect.mixers.attention import Attention
from recollect.mixers.base import map_flops
from recollect.mixers.base_conv import BaseConv
from recollect.mixers.based import Based
from recollect.mixers.linear_attention import LinearAttention
from recollect.ops.attention import attention
from recollect.ops.long_conv import long_conv_flops
from recollect.ops.short_conv import ShortConv
from recollect.spec import SpecError


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def steps(mixer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    state, out = mixer.initial_state(x.shape[0]), []
    for x_t in x.unbind(1):
        y, state = mixer.step(x_t, state)
        out.append(y)
    held = sum(t[0].numel() for t in state.values() if t.is_floating_point())
    assert held == mixer.state_size(x.shape[1])
    return torch.stack(out, dim=1)


def test_identity_features_are_attention_without_softmax():
    mixer = LinearAttention(6, heads=2, feature="identity").double()
    x = numbers(2, 9, 6)
    q, k, v = (to(x).unflatten(-1, (2, 3)).transpose(1, 2) for to in (mixer.q, mixer.k, mixer.v))
    y = ((q @ k.mT).tril() @ v).transpose(1, 2).flatten(2)
    torch.testing.assert_close(mixer(x), mixer.out(y))


def test_taylor_features_come_near_softmax_for_small_scores():
    mixer = LinearAttention(8, feature="taylor").double()
    for to in (mixer.q, mixer.k):
        nn.init.normal_(to.weight, std=0.05)
    x = numbers(2, 9, 8)
    q, k, v = (to(x)[:, None] for to in (mixer.q, mixer.k, mixer.v))
    sharp = mixer.out(attention(q, k, v.expand(-1, -1, -1, 8))[:, 0])
    assert mixer.feature_dim == 16
    torch.testing.assert_close(mixer(x), sharp, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("conv", ["none", "q", "kv", "qkv"])
def test_convolutions_feed_the_projections_they_name(conv):
    mixer = LinearAttention(6, conv=conv, conv_activation="silu", feature="relu").double()
    assert sorted(mixer.convs) == sorted([] if conv == "none" else conv)
    x = numbers(2, 9, 6)
    torch.testing.assert_close(steps(mixer, x), mixer(x), rtol=1e-9, atol=1e-9)
    late = x.clone()
    late[:, 4] += 1  # moves the projections of later tokens only through convolutions
    inputs = [{n: nn.functional.silu(c(t)) for n, c in mixer.convs.items()} for t in (x, late)]
    before, after = (mixer._project(t, c) for t, c in zip((x, late), inputs, strict=True))
    moved = [name for name, a, b in zip("qkv", before, after, strict=True) if (a - b)[:, 5].abs().max() > 0]
    assert moved == sorted(mixer.convs, key="qkv".index)


@pytest.mark.parametrize(
    ("feature", "normalise", "divides"),
    [("elu", "auto", True), ("identity", "auto", False), ("identity", "on", True), ("taylor", "off", False)],
)
def test_who_divides_by_the_sum_of_weights(feature, normalise, divides):
    mixer = LinearAttention(8, heads=2, feature=feature, normalise=normalise, feature_dim=3).double()
    x = numbers(2, 7, 8)
    assert mixer.normalise is divides
    torch.testing.assert_close(steps(mixer, x), mixer(x), rtol=1e-8, atol=1e-8)


def test_base_conv_written_out():
    mixer = BaseConv(3).double()
    x = numbers(2, 7, 3)
    padded = nn.functional.pad(x, (0, 0, 2, 0))
    conv = sum(mixer.conv.weight[:, j] * padded[:, j : j + 7] for j in range(3)) + mixer.conv.bias
    torch.testing.assert_close(mixer(x), (x @ mixer.gate.weight.T + mixer.gate.bias) * conv + x)


def test_implicit_base_conv_written_out():
    mixer = BaseConv(3, implicit=True, length=9).double()
    x = numbers(2, 7, 3)
    time = torch.arange(7) / 8
    angle = 2 * math.pi * 1e-4 / 9 * torch.arange(7)
    features = torch.stack([time, angle.cos(), -angle.sin()], dim=-1).double()
    h = mixer.conv.last(mixer.conv.first(features).clamp(min=0))  # (taps, channels)
    conv = torch.stack([sum(h[j] * x[:, t - j] for j in range(t + 1)) for t in range(7)], dim=1)
    torch.testing.assert_close(mixer(x), mixer.gate(x) * (conv + x) + x, rtol=1e-6, atol=1e-6)


def test_centred_convolutions_look_ahead_and_have_no_step():
    mixer = LinearAttention(6, conv="kv", kernel=3, conv_causal=False).double()
    x = numbers(2, 9, 6)
    late = x.clone()
    late[:, 5] += 1
    moved = (mixer(late) - mixer(x)).abs().amax((0, 2)) > 1e-9
    assert moved.tolist() == [False] * 4 + [True] * 5
    with pytest.raises(SpecError, match=r"of 3 taps reads tokens that come later.*conv_causal: true"):
        mixer.step(x[:, 0], mixer.initial_state(2))


def test_implicit_base_conv_reaches_the_whole_row():
    mixer = BaseConv(4, implicit=True, length=50).double()
    x = numbers(2, 50, 4)
    torch.testing.assert_close(steps(mixer, x), mixer(x), rtol=1e-9, atol=1e-9)
    late = x.clone()
    late[:, 0] += 1
    assert (mixer(late) - mixer(x))[:, -1].abs().max() > 1e-6
    with pytest.raises(SpecError, match="51"):
        mixer(numbers(1, 51, 4))


@pytest.mark.parametrize("form", ["zoology", "paper"])
def test_based_alternates_local_and_linear_layers(form):
    local = {"zoology": BaseConv, "paper": Attention}[form]
    kinds = [[type(p) for p in Based(8, form=form, layer=n, layers=4).parts.values()] for n in range(4)]
    assert kinds == [[local], [LinearAttention], [local], [LinearAttention]]
    assert [type(p) for p in Based(8, form=form).parts.values()] == [local, LinearAttention]


@pytest.mark.parametrize("form", ["zoology", "paper"])
@pytest.mark.parametrize(("layer", "layers"), [(0, 1), (0, 2), (1, 2)])
def test_based_is_its_parts_one_after_the_other(form, layer, layers):
    mixer = Based(8, form=form, heads=2, feature_dim=3, window=4, layer=layer, layers=layers).double()
    x = numbers(2, 11, 8)
    parts = mixer.parts
    if layers == 1:
        seen = parts["local"](x) + (x if form == "paper" else 0)
        expected = parts["taylor"](seen)
    else:
        expected = next(iter(parts.values()))(x)
    torch.testing.assert_close(mixer(x), expected)
    torch.testing.assert_close(steps(mixer, x), mixer(x), rtol=1e-9, atol=1e-9)


def test_based_window_is_local_and_taylor_is_not():
    x = numbers(1, 30, 8)
    late = x.clone()
    late[:, 0] += 1
    for layer, reaches in ((0, False), (1, True)):
        mixer = Based(8, form="paper", window=4, layer=layer, layers=2).double()
        assert bool((mixer(late) - mixer(x))[:, -1].abs().max() > 0) is reaches


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: LinearAttention(8, heads=3), "heads: 3 does not divide width 8; choose from: 1, 2, 4, 8"),
    ],
)
def test_wrong_options_are_named(build, message):
    with pytest.raises(SpecError, match=message):
        build()


@pytest.mark.parametrize("options", [{}, {"feature": "taylor"}, {"feature": "relu"}, {"feature": "identity"}])
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e4])
def test_extreme_inputs_stay_finite(options, scale):
    mixer = LinearAttention(8, **options)
    x = (scale * torch.randn(1, 4096, 8)).requires_grad_()
    y = mixer(x)
    grads = torch.autograd.grad(y.sum(), [x, *mixer.parameters()])
    assert all(t.isfinite().all() for t in (y, *grads))


@pytest.mark.parametrize(
    "mixer",
    [LinearAttention(16, heads=2), LinearAttention(16, feature="taylor"), BaseConv(16), BaseConv(16, implicit=True)],
)
@pytest.mark.parametrize("length", [1, 64, 200])
def test_flops_against_a_count_of_the_matrix_products(mixer, length):
    with FlopCounterMode(display=False) as counter:
        mixer(torch.randn(1, length, 16))
    convolution = 0
    if isinstance(mixer, BaseConv):
        convolution = (
            map_flops(length, mixer.conv) if isinstance(mixer.conv, ShortConv) else long_conv_flops(length, 16)
        )
    assert mixer.flops(length) == counter.get_total_flops() + convolution
