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
from recollect.mixers.rwkv import shifted
from recollect.models.model import build
from recollect.models.spec import ModelSpec
from recollect.ops.activations import silu, softplus
from recollect.ops.positions import rotary
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


def by_head(m, t: torch.Tensor) -> torch.Tensor:
    return heads_first(t.unflatten(-1, (m.heads, -1)))


def token_shift(m, x: torch.Tensor, mu: torch.Tensor) -> torch.Tensor:
    return x + (shifted(x) - x) * mu


def rwkv6_input(m, x: torch.Tensor, c: int) -> torch.Tensor:
    """What RWKV-6's projection number c of w, k, v, r, g reads."""
    low = torch.tanh(token_shift(m, x, m.mix_x) @ m.mix_A).unflatten(-1, (5, -1))[..., c, :]
    return token_shift(m, x, m.mu[c] + low @ m.mix_B[c])


def rwkv7_finish(m, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    r, _, k, v, a, g = (token_shift(m, x, mu) for mu in m.mu)
    a = torch.sigmoid(m.rate + (a @ m.rate_A) @ m.rate_B)
    r, k, v = m.receptance(r), m.key(k) * (1 + (a - 1) * m.replacement), m.value(v)
    r, k, v = (t.unflatten(-1, (-1, m.dim)) for t in (r, k, v))
    y = m.norm(tokens_first(y)) + (r * m.bonus * k).sum(-1, keepdim=True) * v
    return m.out(y.flatten(-2) * (torch.sigmoid(g @ m.gate_A) @ m.gate_B))


def mamba2_parts(m, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return m.in_proj(x).split([m.out.in_features, len(m.conv.weight), m.heads], dim=-1)


def mamba_values(m, x: torch.Tensor) -> torch.Tensor:
    return m.conv(m.in_proj(x).chunk(2, -1)[0])


def normed(m, y: torch.Tensor) -> torch.Tensor:
    return m.norm(tokens_first(y)).flatten(-2)


# By mixer, from the paper's formulas: its values as (rows, parts, length, dim), and what it makes of M times them.
ROUTES = {
    "attention": (lambda m, x: by_head(m, m.qkv(x).chunk(3, -1)[2]), lambda m, x, y: m.out(joined(y))),
    "linear_attention": (lambda m, x: by_head(m, m.v(x)), lambda m, x, y: m.out(joined(y))),
    "deltanet": (
        lambda m, x: by_head(m, m.conv(m.qkv(x))[..., 2 * WIDTH :]),
        lambda m, x, y: m.out(normed(m, y)),
    ),
    "gated_deltanet": (
        lambda m, x: by_head(m, m.conv(m.qkv(x))[..., 2 * WIDTH :]),
        lambda m, x, y: m.out(normed(m, y) * silu(m.z(x))),
    ),
    "deltaproduct": (
        lambda m, x: heads_first(m.conv(m.qkv(x))[..., 3 * WIDTH :].unflatten(-1, (2 * m.heads, -1))),
        lambda m, x, y: m.out(m.norm(tokens_first(y).unflatten(2, (2, -1)).sum(2)).flatten(-2)),
    ),
    "kda": (
        lambda m, x: by_head(m, m.conv(m.qkv(x))[..., 2 * WIDTH :]),
        lambda m, x, y: m.out(normed(m, y) * torch.sigmoid(m.z(x))),
    ),
    "gated_deltanet2": (
        lambda m, x: by_head(m, m.conv(m.qkv(x))[..., 2 * WIDTH :] * torch.sigmoid(m.write(x))),
        lambda m, x, y: m.out(normed(m, y) * torch.sigmoid(m.z(x))),
    ),
    "gla": (
        lambda m, x: by_head(m, m.qkv(x)[..., 2 * m.heads * m.key_dim :]),
        lambda m, x, y: m.out(normed(m, y) * silu(m.r(x))),
    ),
    "retnet": (
        lambda m, x: by_head(m, m.qkv(x).chunk(3, -1)[2]),
        lambda m, x, y: m.out(normed(m, y) * silu(m.g(x))),
    ),
    "mamba": (
        lambda m, x: by_channel(mamba_values(m, x)),
        lambda m, x, y: m.out(joined(y) * silu(m.in_proj(x).chunk(2, -1)[1])),
    ),
    "s6": (lambda m, x: by_channel(x), lambda m, x, y: m.out(joined(y))),
    "mamba2": (
        lambda m, x: by_head(m, m.conv(mamba2_parts(m, x)[1])[..., : m.out.in_features]),
        lambda m, x, y: m.out(m.norm(joined(y) * silu(mamba2_parts(m, x)[0]))),
    ),
    "mamba3": (
        lambda m, x: by_head(m, m.in_proj(x)[..., m.sizes[0] : 2 * m.sizes[0]]),
        lambda m, x, y: m.out(joined(y) * silu(m.in_proj(x)[..., : m.sizes[0]])),
    ),
    "rwkv": (
        lambda m, x: by_channel(m.value(token_shift(m, x, 1 - m.time_mix_v))),
        lambda m, x, y: m.out(torch.sigmoid(m.receptance(token_shift(m, x, 1 - m.time_mix_r))) * joined(y)),
    ),
    "rwkv6": (
        lambda m, x: heads_first(m.value(rwkv6_input(m, x, 2)).unflatten(-1, (-1, m.dim))),
        lambda m, x, y: m.out(normed(m, y) * silu(m.gate(rwkv6_input(m, x, 4)))),
    ),
    "rwkv7": (
        lambda m, x: heads_first(m.value(token_shift(m, x, m.mu[3])).unflatten(-1, (-1, m.dim))),
        rwkv7_finish,
    ),
    "h3": (lambda m, x: by_head(m, m.qkv(x).chunk(3, -1)[2]), lambda m, x, y: m.out(joined(y))),
    "hyena": (
        lambda m, x: by_channel(m.short(m.project(x)).chunk(m.order + 1, -1)[-1]),
        lambda m, x, y: m.out(joined(y)),
    ),
    "base_conv": (lambda m, x: by_channel(x), lambda m, x, y: joined(y) + m.gate(x) * m.conv.bias),
}
CASES = [(kind, {}) for kind in ROUTES] + [
    ("attention", {"heads": 2, "positions": "rotary", "rotary_fraction": 0.5}),
    ("attention", {"heads": 2, "positions": "alibi", "window": 5}),
    ("attention", {"positions": "relative"}),
    ("attention", {"heads": 2, "forget": True, "sinks": True}),
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


def test_every_built_in_mixer_that_has_a_matrix_is_tried():
    assert set(MIXERS) - {"lstm", "based", "lru"} == set(ROUTES)  # Based is made of mixers that have one each


@pytest.mark.parametrize("conv", ["k", "qkv"])
def test_convolutions_before_the_projections_are_held_fixed(conv):
    mixer, inputs = made("attention", conv=conv), x()
    with torch.no_grad():
        read = mixer.convs["v"](inputs) if "v" in conv else inputs
        values = by_head(mixer, nn.functional.linear(read, mixer.qkv.weight[2 * WIDTH :], mixer.qkv.bias[2 * WIDTH :]))
        ours = mixer.out(joined(mixing_matrix(mixer, inputs) @ values))
        torch.testing.assert_close(ours, mixer(inputs), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["mamba", "s6"])
def test_s6_is_equation_1(kind):
    mixer, inputs = made(kind), x()
    given, ssm = mixing_matrix(mixer, inputs), mixer.ssm
    with torch.no_grad():
        u = inputs if kind == "s6" else mamba_values(mixer, inputs)
        rank, n = ssm.dt_proj.in_features, ssm.A_log.shape[1]
        low, B, C = ssm.x_proj(u).split([rank, n, n], dim=-1)
        dt = softplus(ssm.dt_proj(low))
        A = torch.exp(dt[..., None] * -ssm.A_log.exp())  # (rows, length, channels, n)
        row, channel, t, s = 1, 3, 7, 4
        between = A[row, s + 1 : t + 1, channel].prod(0)
        expected = (C[row, t] * between * dt[row, s, channel] * B[row, s]).sum()
        assert given[row, channel, t, s] == pytest.approx(float(expected))
        present = (C[row, t] * dt[row, t, channel] * B[row, t]).sum() + ssm.D[channel]
        assert given[row, channel, t, t] == pytest.approx(float(present))


def test_retnet_is_its_formula():
    mixer, inputs = made("retnet"), x()
    q, k, _ = (by_head(mixer, part) for part in mixer.qkv(inputs).chunk(3, -1))
    q, k = (rotary(part, torch.arange(LENGTH)) for part in (q, k * k.shape[-1] ** -0.5))
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
        "layers.0.mixer": (3, 2 * WIDTH, LENGTH, LENGTH),
        "layers.1.mixer": (3, 1, LENGTH, LENGTH),
    }
    profiles = distance_profiles(model, tokens).set_index(["mixer", "distance"])["size"]
    expected = distance_profile(found["layers.0.mixer"])
    assert list(profiles["layers.0.mixer"]) == pytest.approx(list(expected), rel=1e-5)
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


class Averages(nn.Module):
    """A mixer of a user's own: each head the mean of its values so far, weighted by a gate of the input, and a bias."""

    def __init__(self, heads: int = 0) -> None:
        super().__init__()
        self.gate, self.out, self.heads = nn.Linear(WIDTH, 1), nn.Linear(WIDTH, WIDTH), heads
        self.bias = nn.Parameter(torch.ones(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.mix(x).reshape(x.shape))

    def mix(self, x: torch.Tensor, values: torch.Tensor | None = None) -> torch.Tensor:
        weights = self.gate(x).sigmoid()
        if values is None:
            values = x.unflatten(-1, (self.heads, -1)) if self.heads else x
        weights = weights[..., None] if values.dim() == 4 else weights
        return (weights * values).cumsum(1) / weights.cumsum(1) + self.bias


@pytest.mark.parametrize(("heads", "parts"), [(0, WIDTH), (2, 2)])
def test_a_mixer_of_a_users_own_has_one_if_it_has_mix(heads, parts):
    mixer, inputs = Averages(heads).double(), x()
    M = mixing_matrix(mixer, inputs)
    assert M.shape == (ROWS, parts, LENGTH, LENGTH)
    torch.testing.assert_close(M.sum(-1), torch.ones_like(M[..., 0]))
    values = by_head(mixer, inputs) if heads else by_channel(inputs)
    torch.testing.assert_close(mixer.out(joined(M @ values) + mixer.bias), mixer(inputs))
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), mixer).double()
    assert list(mixing_matrices(model, inputs)) == ["1"]


class Flat(Averages):
    def mix(self, x: torch.Tensor, values: torch.Tensor | None = None) -> torch.Tensor:
        return super().mix(x, values).flatten(1)


def test_a_mixer_without_mix_is_refused_with_the_reason():
    why = r"a mixing matrix is read from mix\(x, values\), the part of a mixer's forward that is linear in the values"
    with pytest.raises(SpecError, match=f"no mixing matrix: {why}, and no part of LSTM has one"):
        mixing_matrices(made("lstm"), x())
    for mixer, name in ((made("lstm"), "LSTM"), (nn.Identity(), "Identity")):
        with pytest.raises(SpecError, match=f"no mixing matrix of {name}: {why}, and it has none"):
            mixing_matrix(mixer, x())
    with pytest.raises(
        SpecError, match=r"no mixing matrix of Flat: mix gives \(1, 152\) for x \(1, 19, 8\), and must give"
    ):
        mixing_matrix(Flat().double(), x())
