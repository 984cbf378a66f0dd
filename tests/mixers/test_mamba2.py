"""Mamba2: right against an independent implementation, of the published size, and with the start it names."""

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from transformers import Mamba2Config, Zamba2Config
from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer
from transformers.models.zamba2.modeling_zamba2 import Zamba2MambaMixer

from recollect.mixers.mamba import Mamba
from recollect.mixers.mamba2 import Mamba2
from recollect.ops.activations import softplus
from recollect.spec import SpecError

THEIR_NAMES = {"conv.weight": "conv1d.weight", "conv.bias": "conv1d.bias", "out.weight": "out_proj.weight"}


def relative(got: Tensor, wanted: Tensor) -> float:
    return ((got - wanted).norm() / wanted.norm().clamp_min(1e-12)).item()


def reference(ours: Mamba2, width: int) -> nn.Module:
    """transformers' mixer of the same sizes: Zamba2's, which normalises group by group as Dao & Gu's code does, where there
    are groups."""
    if ours.groups == 1:
        sizes = {"num_heads": ours.heads, "head_dim": 2 * width // ours.heads, "state_size": ours.state, "n_groups": 1}
        return Mamba2Mixer(Mamba2Config(hidden_size=width, chunk_size=32, num_hidden_layers=1, **sizes), layer_idx=0)
    sizes = {"n_mamba_heads": ours.heads, "mamba_d_state": ours.state, "mamba_ngroups": ours.groups}
    config = Zamba2Config(hidden_size=width, chunk_size=32, time_step_min=0.0, **sizes)
    return Zamba2MambaMixer(config, layer_idx=0)


@pytest.mark.parametrize("length", [1, 2, 63, 65, 257])
@pytest.mark.parametrize(
    ("width", "head_dim", "state", "groups"), [(24, 16, 5, 1), (40, 0, 16, 1), (24, 12, 6, 2), (16, 4, 3, 4)]
)
def test_mamba2_equals_transformers_in_outputs_and_all_gradients(length, width, head_dim, state, groups):
    torch.manual_seed(length)
    ours = Mamba2(width, state=state, head_dim=head_dim, groups=groups)
    theirs = reference(ours, width)
    their_parameters = dict(theirs.named_parameters())
    names = [name for name, _ in ours.named_parameters()]
    assert set(their_parameters) == {THEIR_NAMES.get(name, name) for name in names}
    for name, parameter in ours.named_parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
        their_parameters[THEIR_NAMES.get(name, name)].data.view(parameter.shape).copy_(parameter.data)

    x, weight = torch.randn(2, length, width, requires_grad=True), torch.randn(2, length, width)
    y, wanted = ours(x), theirs(x)
    assert relative(y, wanted) < 1e-5
    grads = torch.autograd.grad((y * weight).sum(), [x, *ours.parameters()])
    leaves = [x, *(their_parameters[THEIR_NAMES.get(name, name)] for name in names)]
    wanted_grads = torch.autograd.grad((wanted * weight).sum(), leaves)
    for name, got, right in zip(["x", *names], grads, wanted_grads, strict=True):
        assert relative(got, right.view_as(got)) < 1e-5, name


@pytest.mark.parametrize(("state", "millions"), [(16, 152.89), (32, 153.68), (64, 155.27)])
def test_24_layers_of_width_1024_have_the_published_number_of_parameters(state: int, millions: float):
    with torch.device("meta"):
        mixer = Mamba2(1024, state=state)
    assert mixer.heads == 32
    norms = 24 * 1024 + 1024  # one a block, and the last
    assert round((24 * sum(p.numel() for p in mixer.parameters()) + norms) / 1e6, 2) == millions


@pytest.mark.parametrize(("width", "heads"), [(3, 1), (24, 1), (32, 1), (40, 2), (64, 2), (128, 4)])
def test_heads_of_64_or_the_nearest_smaller_size_that_divides(width: int, heads: int):
    assert Mamba2(width).heads == heads


def test_sizes_that_do_not_divide_are_refused():
    with pytest.raises(
        SpecError, match="mamba2: head_dim of the inner width: 64 does not divide width 48; choose from: 1, 2"
    ):
        Mamba2(24, head_dim=64)
    with pytest.raises(SpecError, match="mamba2: groups: 2 does not divide heads 3; choose from: 1, 3"):
        Mamba2(24, head_dim=16, groups=2)


def test_step_sizes_and_decays_start_where_the_paper_puts_them():
    mixer = Mamba2(256, head_dim=1, state=2)
    dt, rates = softplus(mixer.dt_bias), mixer.A_log.exp()
    assert 1e-3 * 0.999 <= dt.min() < 1.2e-3
    assert 0.09 < dt.max() <= 0.1001
    assert 1 <= rates.min() < 1.5
    assert 15.5 < rates.max() <= 16
    assert (mixer.D == 1).all()


@pytest.mark.parametrize("size", [1e-3, 100])
def test_large_inputs_and_long_rows_stay_finite(size: float):
    mixer = Mamba2(6, state=4, head_dim=3)
    y = mixer(size * torch.randn(1, 4096, 6))
    assert y.isfinite().all()
    for name, grad in zip(mixer.state_dict(), torch.autograd.grad(y.sum(), [*mixer.parameters()]), strict=True):
        assert grad.isfinite().all(), name


@pytest.mark.parametrize(("width", "length"), [(5, 19), (24, 70)])
def test_a_member_is_the_same_to_the_bit_among_any_others(width: int, length: int):
    mixers, x = [Mamba2(width, state=7) for _ in range(8)], torch.randn(8, 3, length, width)
    among = {}
    for size in (2, 3, 8):
        weights = {k: v.detach().requires_grad_() for k, v in stack_module_state(mixers[:size])[0].items()}
        y = vmap(lambda w, x: functional_call(mixers[0], w, (x,)))(weights, x[:size])
        grads = torch.autograd.grad(y.square().sum(), list(weights.values()))
        among[size] = dict(zip(weights, grads, strict=True)) | {"y": y}
    for size in (2, 3):
        for name, value in among[size].items():
            assert torch.equal(value, among[8][name][:size]), f"{name} among {size}"


@pytest.mark.parametrize("mixer", [Mamba(32), Mamba2(32), Mamba2(32, head_dim=8, groups=2)])
def test_hooks_of_its_parts_run_and_change_nothing(mixer):
    torch.manual_seed(0)
    x, given = torch.randn(2, 9, 32), []
    expected = mixer(x)
    for part in (mixer.conv, mixer.ssm if isinstance(mixer, Mamba) else mixer.norm):
        part.register_forward_hook(lambda part, inputs, output: given.append(output.shape))
    torch.testing.assert_close(mixer(x), expected)
    assert len(given) == 2
    assert given[0][:2] == (2, 9)
