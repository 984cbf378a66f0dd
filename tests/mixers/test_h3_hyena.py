"""H3 and Hyena are the formulas of their papers, evaluated term by term in float64; their own initial values survive."""

import math

import pytest
import torch
from torch import Tensor, nn

from recollect.mixers.h3 import H3, DiagonalSSM
from recollect.mixers.hyena import Hyena, positional_features
from recollect.ops.long_conv import long_conv_definition
from recollect.ops.short_conv import short_conv_definition
from recollect.spec import SpecError


def diagonal_ssm(ssm: DiagonalSSM, u: Tensor) -> Tensor:
    """The recurrence as written, in complex numbers: u (batch, length, heads, entries)."""
    A, dt = torch.complex(-ssm.log_decay.exp(), ssm.frequency), ssm.log_dt.exp()[:, None]  # (heads, N / 2)
    if ssm.discretise == "bilinear":
        pole, b = (1 + dt * A / 2) / (1 - dt * A / 2), dt / (1 - dt * A / 2)
    else:
        pole, b = torch.exp(dt * A), (torch.exp(dt * A) - 1) / A
    read = 2 * torch.view_as_complex(ssm.C) * b
    state, out = 0, []
    for u_t in u.unbind(1):
        state = pole[:, None] * state + u_t[..., None]  # (batch, heads, entries, N / 2)
        out.append((read[:, None] * state).sum(-1).real + ssm.D[:, None] * u_t)
    return torch.stack(out, dim=1)


def h3(mixer: H3, x: Tensor) -> Tensor:
    q, k, v = mixer.qkv(x).chunk(3, dim=-1)
    k = long_conv_definition(k, mixer.shift) + mixer.shift_skip * k
    q, k, v = (t.unflatten(-1, (mixer.heads, mixer.head_dim)) for t in (q, k, v))
    y = diagonal_ssm(mixer.diagonal, torch.einsum("blhi,blhj->blhij", k, v).flatten(3))
    return mixer.out(torch.einsum("blhi,blhij->blhj", q, y.view(*k.shape, mixer.head_dim)).flatten(2))


def hyena(mixer: Hyena, x: Tensor) -> Tensor:
    width = x.shape[-1]
    u = short_conv_definition(mixer.project(x), mixer.short.weight, mixer.short.bias)
    *gates, v = u.split(width, dim=-1)
    for n, gate in enumerate(gates[:-1]):
        v = gate * v
        v = long_conv_definition(v, mixer.filters(x.shape[1])[n]) + mixer.skip[n] * v
    return mixer.out(gates[-1] * v)


@pytest.mark.parametrize("length", [1, 2, 63, 65, 257])
@pytest.mark.parametrize(
    ("build", "slow"),
    [
        (lambda: H3(6, length=257, state=10), h3),
        (lambda: H3(9, length=257, state=0, head_dim=3), h3),
        (lambda: H3(6, length=257, state=10, discretise="zoh"), h3),
        (lambda: Hyena(6, length=257), hyena),
        (lambda: Hyena(5, length=257, order=3, features=7, kernel=2), hyena),
        (lambda: Hyena(6, length=257, train_features=True), hyena),
    ],
)
def test_the_mixer_is_its_formula_forward_and_backward(build, slow, length: int):
    mixer = build().double()
    width = mixer.out.in_features
    x = torch.randn(2, length, width, dtype=torch.float64, requires_grad=True)
    y, wanted = mixer(x), slow(mixer, x)
    torch.testing.assert_close(y, wanted, rtol=1e-9, atol=1e-9)
    leaves = [x, *mixer.parameters()]
    grads, right = (
        torch.autograd.grad(t.sin().sum(), leaves, materialize_grads=True, allow_unused=True) for t in (y, wanted)
    )
    for got, want in zip(grads, right, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-8)


def test_h3_takes_its_state_from_the_longest_row_or_the_option():
    assert H3(8, length=48).shift.shape == (8, 48)
    assert H3(8, length=48, state=64).shift.shape == (8, 64)
    assert H3(8, length=48, state=64).diagonal.C.shape == (4, 32, 2)


def test_h3_starts_with_the_linear_spectrum():
    ssm = H3(8, length=48).diagonal
    torch.testing.assert_close(ssm.frequency[0], math.pi * torch.arange(24))
    assert ((ssm.log_dt.exp() >= 1e-3) & (ssm.log_dt.exp() <= 0.1)).all()


def test_h3s_filter_is_right_in_float32_over_a_long_row():
    for discretise in ("bilinear", "zoh"):
        ssm = H3(8, length=4096, state=64, discretise=discretise).diagonal
        short = ssm.filter(4096)
        exact = ssm.double().filter(4096)
        assert (short - exact).abs().max() < 1e-4 * exact.abs().max()


def test_hyenas_features_start_as_they_stay_when_they_are_not_trained():
    torch.manual_seed(0)
    trained = Hyena(6, length=40, features=5, train_features=True)
    fixed = Hyena(6, length=40, features=5)
    weights = trained.state_dict()
    features = weights.pop("filters.features")
    fixed.load_state_dict(weights)
    x = torch.randn(2, 33, 6)
    torch.testing.assert_close(trained(x), fixed(x))
    assert features.shape == (40, 5)
    assert trained.filters.features is not None
    (grad,) = torch.autograd.grad(trained(x).square().sum(), trained.filters.features)
    assert grad[:33].abs().min() > 0
    assert (grad[33:] == 0).all()


def test_with_three_features_hyenas_filter_sees_the_time_only():
    features = positional_features(torch.arange(1024.0), 1024, bands=1)
    torch.testing.assert_close(features[:, 0], torch.linspace(0, 1, 1024))
    assert (features[:, 1] - 1).abs().max() < 1e-3
    assert features[:, 2].abs().max() < 1e-3


def test_hyena_filters_fade_at_a_pace_of_their_own():
    filters = Hyena(3, length=200).filters(200)[0]  # (channels, taps)
    ends = filters[:, -20:].abs().mean(1) / filters[:, :20].abs().mean(1)
    assert ends[0] > 10 * ends[-1]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: H3(9, length=8), "h3: head_dim: 2 does not divide width 9; choose from: 1, 3, 9"),
        (lambda: Hyena(8, length=8, order=1), "order 1 leaves no long convolution"),
        (lambda: Hyena(8, length=8, features=4), "features 4 must be odd"),
        (lambda: Hyena(8, length=8)(torch.zeros(1, 9, 8)), "length 9 is longer than its filters, built for 8"),
    ],
)
def test_what_cannot_be_is_an_error_with_numbers(build, message: str):
    with pytest.raises(SpecError, match=message):
        build()


@pytest.mark.parametrize("mixer", [H3(4, length=4096, state=64), Hyena(4, length=4096)])
def test_large_inputs_and_long_rows_stay_finite(mixer: nn.Module):
    x = (1e4 * torch.randn(1, 4096, 4)).requires_grad_()
    y = mixer(x)
    grads = torch.autograd.grad(y.sum(), [x, *mixer.parameters()])
    assert all(t.isfinite().all() for t in (y, *grads))
