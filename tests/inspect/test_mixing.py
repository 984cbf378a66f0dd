"""Mixing matrices: M times the values is what the mixer computes, and where a formula gives M, it is that."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from recollect.inspect.mixing import (
    decay_rate,
    distance_profile,
    distance_profiles,
    mixing_matrices,
    mixing_matrix,
)
from recollect.mixers import MIXERS
from recollect.mixers.base_conv import BaseConv
from recollect.mixers.mamba import S6, SelectiveSSM
from recollect.mixers.rwkv import shifted
from recollect.models.model import build
from recollect.models.spec import ModelSpec
from recollect.ops.activations import silu, softplus
from recollect.spec import SpecError

WIDTH, LENGTH, ROWS = 8, 19, 2
CONTEXT = {"rwkv": {"layer": 0, "layers": 2}, "rwkv6": {"layer": 0, "layers": 2}, "rwkv7": {"layer": 0, "layers": 2},
           "hyena": {"length": LENGTH}, "h3": {"length": LENGTH}}  # fmt: skip


def made(kind: str, seed: int = 0, **options) -> nn.Module:
    """A mixer in float64 whose every parameter is far from where it starts."""
    torch.manual_seed(seed)
    mixer = MIXERS.find(kind)(WIDTH, **CONTEXT.get(kind, {}), **options).double()
    with torch.no_grad():
        for p in mixer.parameters():
            p += 0.3 * torch.randn_like(p)
    return mixer


def x(seed: int = 1) -> torch.Tensor:
    return torch.randn(ROWS, LENGTH, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def heads_first(t: torch.Tensor) -> torch.Tensor:
    return t.transpose(1, 2)


def by_channel(t: torch.Tensor) -> torch.Tensor:
    """(rows, length, channels) as so many parts of one channel."""
    return t.transpose(1, 2)[..., None]


def tokens_first(y: torch.Tensor) -> torch.Tensor:
    """(rows, parts, length, dim) -> (rows, length, parts, dim)."""
    return y.transpose(1, 2)


def joined(y: torch.Tensor) -> torch.Tensor:
    return tokens_first(y).flatten(2)


# By mixer: its values as (rows, parts, length, dim), and what it makes of M times them.
ROUTES = {
    "attention": (lambda m, x: m._project(x, [])[2], lambda m, x, y: m.out(joined(y))),
    "linear_attention": (lambda m, x: heads_first(m._project(x, {})[2]), lambda m, x, y: m.out(joined(y))),
    "deltanet": (
        lambda m, x: heads_first(m._split(m.conv(m.qkv(x)))[2]),
        lambda m, x, y: m._finish(tokens_first(y), x),
    ),
    "gla": (lambda m, x: heads_first(m._project(x)[2]), lambda m, x, y: m._finish(tokens_first(y), x)),
    "retnet": (
        lambda m, x: heads_first(m._project(x, torch.arange(LENGTH))[2]),
        lambda m, x, y: m._finish(tokens_first(y), x),
    ),
    "mamba2": (
        lambda m, x: heads_first(m._scanned(m.conv(m._project(x)[1]), m._project(x)[2])[0]),
        lambda m, x, y: m.out(m.norm(joined(y) * silu(m._project(x)[0]))),
    ),
    "rwkv": (
        lambda m, x: by_channel(m._project(x, shifted(x))[2]),
        lambda m, x, y: m.out(m._project(x, shifted(x))[0] * joined(y)),
    ),
    "rwkv6": (
        lambda m, x: heads_first(m._project(x, shifted(x))[2]),
        lambda m, x, y: m.out(m.norm(tokens_first(y)).flatten(-2) * m._project(x, shifted(x))[4]),
    ),
    "rwkv7": (
        lambda m, x: heads_first(m._project(x, shifted(x))[2]),
        lambda m, x, y: m._read(tokens_first(y), *m._project(x, shifted(x))[:3], m._project(x, shifted(x))[-1]),
    ),
    "h3": (
        lambda m, x: heads_first(m.qkv(x).chunk(3, -1)[2].unflatten(-1, (m.heads, -1))),
        lambda m, x, y: m.out(joined(y)),
    ),
    "hyena": (
        lambda m, x: by_channel(m.short(m.project(x)).chunk(m.order + 1, -1)[-1]),
        lambda m, x, y: m.out(joined(y)),
    ),
}
ROUTES["gated_deltanet"] = ROUTES["deltanet"]
CASES = [(kind, {}) for kind in ROUTES] + [
    ("attention", {"heads": 2, "positions": "rotary", "rotary_fraction": 0.5}),
    ("attention", {"heads": 2, "positions": "alibi", "window": 5}),
    ("attention", {"positions": "relative"}),
    ("linear_attention", {"feature": "identity", "heads": 2}),
    ("linear_attention", {"feature": "taylor", "feature_dim": 3}),
    ("mamba2", {"head_dim": 4, "groups": 2}),
    ("hyena", {"order": 3}),
]


@pytest.mark.parametrize(("kind", "options"), CASES, ids=str)
def test_the_matrix_times_the_values_is_what_the_mixer_computes(kind, options):
    mixer, inputs = made(kind, **options), x()
    values, finish = ROUTES[kind]
    with torch.no_grad():
        M = mixing_matrix(mixer, inputs)
        ours = finish(mixer, inputs, M @ values(mixer, inputs))
        torch.testing.assert_close(ours, mixer(inputs), rtol=1e-9, atol=1e-9)
    assert M.shape[0] == ROWS
    torch.testing.assert_close(M.triu(1), torch.zeros_like(M), rtol=0, atol=1e-12)  # nothing is read from the future


@pytest.mark.parametrize("conv", ["k", "qkv"])
def test_convolutions_before_the_projections_are_held_fixed(conv):
    mixer, inputs = made("attention", conv=conv), x()
    with torch.no_grad():
        values = mixer._project(inputs, [conv(inputs) for conv in mixer.convs.values()])[2]
        ours = mixer.out(joined(mixing_matrix(mixer, inputs) @ values))
        torch.testing.assert_close(ours, mixer(inputs), rtol=1e-9, atol=1e-9)


def test_base_conv_mixes_its_own_input():
    mixer, inputs = made("base_conv"), x()
    assert isinstance(mixer, BaseConv)
    with torch.no_grad():
        ours = joined(mixing_matrix(mixer, inputs) @ by_channel(inputs)) + mixer.gate(inputs) * mixer.conv.bias
        torch.testing.assert_close(ours, mixer(inputs), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["mamba", "s6"])
def test_s6_is_equation_1(kind):
    mixer, inputs = made(kind), x()
    (given,) = mixing_matrices(mixer, inputs).values()
    ssm = mixer.ssm
    assert isinstance(ssm, SelectiveSSM)
    with torch.no_grad():
        u = inputs if isinstance(mixer, S6) else mixer.conv(mixer.in_proj(inputs).chunk(2, -1)[0])
        torch.testing.assert_close(joined(given @ by_channel(u)), ssm(u), rtol=1e-9, atol=1e-9)
        dt, B, C = ssm._project(u)
        dt = softplus(dt + ssm.dt_proj.bias)
        A = torch.exp(dt[..., None] * -ssm.A_log.exp())  # (rows, length, channels, n)
        row, channel, t, s = 1, 3, 7, 4
        between = A[row, s + 1 : t + 1, channel].prod(0)
        expected = (C[row, t] * between * dt[row, s, channel] * B[row, s]).sum()
        assert given[row, channel, t, s] == pytest.approx(float(expected))
        present = (C[row, t] * dt[row, t, channel] * B[row, t]).sum() + ssm.D[channel]
        assert given[row, channel, t, t] == pytest.approx(float(present))


def test_retnet_is_its_formula():
    mixer, inputs = made("retnet"), x()
    q, k, _ = (heads_first(t) for t in mixer._project(inputs, torch.arange(LENGTH)))
    apart = (torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)).double()
    gamma = 1 - 2.0 ** (-5 - torch.arange(2).double())
    decay = (gamma[:, None, None] ** apart).tril()
    torch.testing.assert_close(mixing_matrix(mixer, inputs), (q @ k.mT) * decay, rtol=1e-9, atol=1e-9)


def test_attention_weights_are_a_softmax():
    mixer = made("attention", heads=2)
    M = mixing_matrix(mixer, x())
    torch.testing.assert_close(M.sum(-1), torch.ones_like(M[..., 0]))
    with torch.no_grad():
        mixer.qkv.weight[: 2 * WIDTH] = 0
        mixer.qkv.bias[: 2 * WIDTH] = 0
    even = torch.ones(LENGTH, LENGTH, dtype=torch.float64).tril() / torch.arange(1.0, LENGTH + 1)[:, None]
    torch.testing.assert_close(mixing_matrix(mixer, x())[0, 0], even)


def test_every_mixer_of_a_model_is_found_by_its_name():
    spec = ModelSpec(pattern="MT", blocks={"M": {"mixer": "mamba"}, "T": {"mixer": "attention"}}, width=WIDTH, layers=2)
    model = build(spec, 30, LENGTH, seed=0)
    tokens = torch.randint(30, (3, LENGTH), generator=torch.Generator().manual_seed(0))
    found = mixing_matrices(model, tokens)
    assert {place: tuple(M.shape) for place, M in found.items()} == {
        "layers.0.mixer.ssm": (3, 2 * WIDTH, LENGTH, LENGTH),
        "layers.1.mixer": (3, 1, LENGTH, LENGTH),
    }
    profiles = distance_profiles(model, tokens).set_index(["place", "distance"])["size"]
    expected = distance_profile(found["layers.0.mixer.ssm"])
    assert list(profiles["layers.0.mixer.ssm"]) == pytest.approx(list(expected), rel=1e-5)
    based = mixing_matrices(build(ModelSpec(mixer="based", width=WIDTH, layers=1), 30, LENGTH, seed=0), tokens)
    assert list(based) == ["layers.0.mixer.parts.local", "layers.0.mixer.parts.taylor"]


def test_a_matrix_that_decays_and_one_that_does_not():
    apart = (torch.arange(40)[:, None] - torch.arange(40)).double()
    fading = torch.stack([sign * (0.8**apart).tril() for sign in (1, -1)])  # sizes count, not signs
    profile = distance_profile(fading)
    assert profile == pytest.approx(0.8 ** np.arange(40))
    assert decay_rate(profile) == pytest.approx(-math.log(0.8))
    lasting = distance_profile(torch.ones(1, 40, 40).tril())
    assert decay_rate(lasting) == pytest.approx(0, abs=1e-9)


def test_an_lstm_has_no_mixing_matrix():
    with pytest.raises(SpecError, match=r"no mixing matrix.*Attention, BaseConv"):
        mixing_matrices(made("lstm"), x())
    with pytest.raises(SpecError, match="no mixing matrix of LSTM"):
        mixing_matrix(made("lstm"), x())
