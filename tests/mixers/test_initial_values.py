"""What each mixer starts from inside a model: the published values that its docstring claims."""

import math

import pytest
import torch
from torch import Tensor, nn

from recollect.mixers import MIXERS
from recollect.mixers.base import Mixer
from recollect.models.model import build
from recollect.models.spec import ModelSpec
from recollect.ops.activations import softplus
from recollect.spec import SpecError

WIDTH, LAYERS = 64, 2
SMALL, OUT = 0.02, 0.02 / math.sqrt(2 * LAYERS)  # the model's default


def second_mixer(kind: str, **options) -> nn.Module:
    """The mixer of the second of two layers."""
    spec = ModelSpec.model_validate({"mixer": {"kind": kind, **options}, "width": WIDTH, "layers": LAYERS})
    return build(spec, 16, 64, seed=1).layers[1].mixer


def default(inputs: int) -> float:
    """The standard deviation of a weight of nn.Linear by PyTorch's default: uniform in +- 1 / sqrt(inputs)."""
    return (3 * inputs) ** -0.5


def spread(weight: Tensor) -> float:
    return weight.detach().square().mean().sqrt().item()


CASES: list[tuple[str, dict, dict[str, float]]] = [  # a mixer, its options, and the standard deviations of some weights
    ("hyena", {}, {"project": SMALL, "filters.first": SMALL, "filters.second": SMALL, "filters.last": SMALL, "out": OUT}),
    ("hyena", {"filter_init": "pytorch"}, {"project": SMALL, "filters.first": default(3), "filters.second": default(64),
                                           "filters.last": default(64), "out": OUT}),
    ("base_conv", {"implicit": True}, {"gate": SMALL, "conv.first": SMALL, "conv.last": SMALL}),
    ("h3", {}, {"qkv": SMALL, "out": OUT}),
    ("rwkv", {}, {"key": SMALL, "value": SMALL, "receptance": SMALL, "out": OUT}),
    ("rwkv", {"init": "pytorch"}, dict.fromkeys(("key", "value", "receptance", "out"), default(64))),
    ("mamba", {}, {"in_proj": SMALL, "ssm.x_proj": SMALL, "ssm.dt_proj": default(4), "out": OUT}),
    ("mamba", {"init": "pytorch"}, {"in_proj": default(64), "ssm.x_proj": default(128), "ssm.dt_proj": default(4),
                                    "out": default(128) / math.sqrt(LAYERS)}),
    ("mamba", {"dt_init": "zero"}, {"in_proj": SMALL, "ssm.x_proj": SMALL, "ssm.dt_proj": SMALL, "out": OUT}),
    ("deltanet", {}, {"qkv": SMALL, "out": OUT}),
    ("gated_deltanet", {"expand_v": 2}, {"qkv": SMALL, "z": SMALL, "out": OUT}),
    ("mamba3", {}, {"in_proj": SMALL, "out": OUT}),
    ("lru", {}, {"B": 128**-0.5, "out": 64**-0.5 / math.sqrt(2 * LAYERS)}),
    ("deltaproduct", {"output_gate": True}, {"qkv": SMALL, "beta": SMALL, "z": SMALL, "out": OUT}),
    ("kda", {}, {"qkv": SMALL, "decay.0": SMALL, "decay.1": SMALL, "z.1": SMALL, "out": OUT}),
    ("gated_deltanet2", {}, {"qkv": SMALL, "beta": SMALL, "write": SMALL, "out": OUT}),
    ("gla", {}, {"qkv": SMALL, "r": SMALL, "out": OUT}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "options", "expected"), CASES)
def test_linear_maps_start_as_wide_as_published(kind, options, expected):
    mixer = second_mixer(kind, **options)
    for name, deviation in expected.items():
        weight = mixer.get_submodule(name).weight
        allowed = 4 / math.sqrt(2 * weight.numel())  # four standard errors
        assert spread(weight) == pytest.approx(deviation, rel=allowed), name


def test_hyenas_small_start_makes_its_filters_small():
    small, large = (second_mixer("hyena", filter_init=init).filters(64) for init in ("normal", "pytorch"))
    assert spread(small) < 1e-4
    assert spread(large) > 1e-2


@pytest.mark.parametrize("options", [{}, {"init": "pytorch"}])
def test_mamba_keeps_the_published_step_sizes(options):
    bias = second_mixer("mamba", **options).ssm.dt_proj.bias
    assert 0.99e-3 <= softplus(bias).min() <= softplus(bias).max() <= 0.101


@pytest.mark.parametrize("options", [{}, {"init": "pytorch"}])
def test_mambas_step_size_can_start_without_a_bias(options):
    ssm = second_mixer("mamba", dt_init="zero", **options).ssm
    assert (ssm.dt_proj.bias == 0).all()
    torch.testing.assert_close(ssm.A_log[0].exp(), torch.arange(1.0, 17.0))


@pytest.mark.parametrize(
    ("kind", "options"), [("kda", {}), ("gated_deltanet2", {}), ("deltaproduct", {"forget": True})]
)
def test_decays_of_the_delta_family_start_as_published(kind, options):
    mixer = second_mixer(kind, **options)
    dt, rate = softplus(mixer.dt_bias), mixer.A_log.exp()
    assert 0.99e-3 <= dt.min() <= dt.max() <= 0.101
    assert (0.01 if options else 1) <= rate.min() <= rate.max() <= 16


def test_lrus_decays_start_on_the_ring_and_its_state_keeps_the_inputs_size():
    mixer = second_mixer("lru", r_min=0.5, r_max=0.9, max_phase=1.0)
    size = (-mixer.nu_log.exp()).exp()
    assert 0.5 <= size.min() <= size.max() <= 0.9
    assert 0 < mixer.theta_log.exp().min() <= mixer.theta_log.exp().max() <= 1
    torch.testing.assert_close(mixer.gamma_log.exp(), (1 - size**2).sqrt())


def test_mamba3_starts_with_published_steps_and_biases():
    mixer = second_mixer("mamba3")
    assert 0.99e-3 <= softplus(mixer.dt_bias).min() <= softplus(mixer.dt_bias).max() <= 0.101
    assert all((t == 1).all() for t in (mixer.B_bias, mixer.C_bias, mixer.D))


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("mamba3", {"state": 5}, "choose an even state"),
        ("mamba3", {"rotary_fraction": 0.0}, "no pair of channels to rotate"),
        ("mamba3", {"groups": 3}, "groups: 3 does not divide heads 2; choose from: 1, 2"),
        ("lru", {"r_min": 0.9, "r_max": 0.5}, "r_min < r_max"),
        ("lru", {"max_phase": 7.0}, "up to 2 pi"),
        ("lru", {"state": -1}, "option state = -1: choose from 0"),
        ("deltaproduct", {"steps": 0}, "option steps = 0: choose from 1"),
        ("deltanet", {"kernel": 0}, "option kernel = 0: choose from 1"),
        ("gated_deltanet", {"expand_v": 0}, "option expand_v = 0: choose from 1"),
        ("gla", {"rank": 0}, "option rank = 0: choose from 1"),
        ("linear_attention", {"feature_dim": -1}, "option feature_dim = -1: choose from 0"),
        ("base_conv", {"kernel": 0}, "option kernel = 0: choose from 1"),
        ("attention", {"window": -1}, "option window = -1: choose from 0"),
        ("based", {"window": 0}, "option window = 0: choose from 1"),
        ("lstm", {"hidden": -1}, "option hidden = -1: choose from 0"),
        ("h3", {"state": -1}, "option state = -1: choose from 0"),
    ],
)
def test_options_out_of_range_are_refused(kind, options, message):
    with pytest.raises(SpecError, match=message):
        second_mixer(kind, **options)


def test_a_mimetic_start_survives_pytorchs_default():
    ssm = second_mixer("mamba", mimetic=True, init="pytorch").ssm
    assert (ssm.dt_proj.weight == 0).all()
    w_B, w_C = ssm.x_proj.weight[-32:].chunk(2)
    assert torch.equal(w_B, w_C)
    assert spread(w_B) == pytest.approx(default(128), rel=0.1)


def test_a_mimetic_start_cannot_have_its_step_size_zeroed():
    with pytest.raises(SpecError, match="mimetic sets the step sizes itself"):
        second_mixer("mamba", mimetic=True, dt_init="zero")


def test_pytorchs_law_changes_the_start_and_nothing_else():
    for kind in ("mamba", "rwkv"):
        first, second = second_mixer(kind), second_mixer(kind, init="pytorch")
        second.load_state_dict(first.state_dict())
        x = torch.randn(2, 9, WIDTH)
        assert torch.equal(first(x), second(x))


@pytest.mark.parametrize("kind", list(MIXERS))
def test_every_built_in_mixer_has_a_version_and_says_whose_initial_values_it_has(kind):
    cls = MIXERS.find(kind)
    assert issubclass(cls, Mixer)
    assert cls.version >= 1
    assert "Initial values:" in (cls.__doc__ or "")
