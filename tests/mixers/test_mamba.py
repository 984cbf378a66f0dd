"""Mamba and S6: right against an independent implementation, of the published size, and with the start they name."""

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap
from transformers import MambaConfig
from transformers.models.mamba.modeling_mamba import MambaMixer

from recollect.mixers.mamba import S6, Mamba
from recollect.ops.activations import softplus
from recollect.spec import SpecError

THEIR_NAMES = {
    "in_proj.weight": "in_proj.weight", "conv.weight": "conv1d.weight", "conv.bias": "conv1d.bias",
    "ssm.A_log": "A_log", "ssm.D": "D", "ssm.x_proj.weight": "x_proj.weight", "ssm.dt_proj.weight": "dt_proj.weight",
    "ssm.dt_proj.bias": "dt_proj.bias", "out.weight": "out_proj.weight",
}  # fmt: skip


def relative(got: Tensor, wanted: Tensor) -> float:
    return ((got - wanted).norm() / wanted.norm().clamp_min(1e-12)).item()


@pytest.mark.parametrize("length", [1, 2, 63, 65, 257])
@pytest.mark.parametrize(("width", "state"), [(24, 16), (40, 5)])
def test_mamba_equals_transformers_in_outputs_and_all_gradients(length: int, width: int, state: int):
    torch.manual_seed(length)
    ours = Mamba(width, state=state)
    theirs = MambaMixer(MambaConfig(hidden_size=width, state_size=state, num_hidden_layers=1), layer_idx=0)
    their_parameters = dict(theirs.named_parameters())
    assert set(their_parameters) == set(THEIR_NAMES.values())
    names = [name for name, _ in ours.named_parameters()]
    for name, parameter in ours.named_parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
        their_parameters[THEIR_NAMES[name]].data.view(parameter.shape).copy_(parameter.data)

    x, weight = torch.randn(2, length, width, requires_grad=True), torch.randn(2, length, width)
    y, wanted = ours(x), theirs(x)
    assert relative(y, wanted) < 1e-5
    grads = torch.autograd.grad((y * weight).sum(), [x, *ours.parameters()])
    leaves = [x, *(their_parameters[THEIR_NAMES[name]] for name in names)]
    wanted_grads = torch.autograd.grad((wanted * weight).sum(), leaves)
    for name, got, right in zip(["x", *names], grads, wanted_grads, strict=True):
        assert relative(got, right.view_as(got)) < 1e-5, name


@pytest.mark.parametrize(("state", "millions"), [(16, 160.02), (32, 162.37), (64, 167.09)])
def test_24_layers_of_width_1024_have_the_published_number_of_parameters(state: int, millions: float):
    with torch.device("meta"):
        mixer = sum(p.numel() for p in Mamba(1024, state=state).parameters())
    norms = 24 * 1024 + 1024  # one a block, and the last
    assert round((24 * mixer + norms) / 1e6, 2) == millions


def test_ablations_leave_out_their_parameters_and_nothing_else():
    full = {name: p.shape for name, p in Mamba(16).named_parameters()}
    bare = {name: p.shape for name, p in Mamba(16, conv=False).named_parameters()}
    assert full.keys() - bare.keys() == {"conv.weight", "conv.bias"}
    ungated = {name: p.shape for name, p in Mamba(16, gate=False).named_parameters()}
    assert {name for name in full if full[name] != ungated[name]} == {"in_proj.weight"}
    assert ungated["in_proj.weight"] == (32, 16)


def test_without_convolution_and_gate_mamba_is_silu_and_s6_between_two_projections():
    mamba, s6 = Mamba(8, expand=1, conv=False, gate=False).double(), S6(8).double()
    s6.load_state_dict({k: v for k, v in mamba.state_dict().items() if not k.startswith("in_proj")})
    x = torch.randn(2, 9, 8, dtype=torch.float64)
    torch.testing.assert_close(mamba(x), s6(torch.nn.functional.silu(mamba.in_proj(x))))


@pytest.mark.parametrize("kind", [Mamba, S6])
def test_step_sizes_and_decays_start_where_the_paper_puts_them(kind):
    mixer = kind(256, state=4, dt_min=0.01, dt_max=0.5)
    dt = softplus(mixer.ssm.dt_proj.bias)
    assert 0.01 * 0.999 <= dt.min() < 0.012
    assert 0.4 < dt.max() <= 0.5 * 1.001
    assert 0.04 < dt.log().mean().exp() < 0.12  # log-uniform: the middle is the geometric mean, 0.07
    torch.testing.assert_close(mixer.ssm.A_log.exp(), torch.tensor([1.0, 2, 3, 4]).expand_as(mixer.ssm.A_log))
    assert mixer.ssm.dt_proj.weight.abs().max() <= mixer.ssm.dt_proj.in_features**-0.5
    assert (mixer.ssm.D == 1).all()


def test_mimetic_start_is_close_to_linear_attention():
    torch.manual_seed(0)
    mamba = Mamba(16, mimetic=True).double()
    u = torch.randn(2, 40, 32, dtype=torch.float64)
    dt, B, C = mamba.ssm._project(u)
    torch.testing.assert_close(B, C)
    delta = softplus(dt + mamba.ssm.dt_proj.bias)
    torch.testing.assert_close(delta, torch.ones_like(delta), rtol=1e-6, atol=0)
    expected = (C @ B.transpose(1, 2)).tril() @ u + u
    assert relative(mamba.ssm(u), expected) < 0.02


@pytest.mark.parametrize("kind", [Mamba, S6])
@pytest.mark.parametrize("size", [1e-3, 100])
def test_large_inputs_and_long_rows_stay_finite(kind, size: float):
    mixer = kind(6)
    y = mixer(size * torch.randn(1, 4096, 6))
    assert y.isfinite().all()
    for name, grad in zip(mixer.state_dict(), torch.autograd.grad(y.sum(), [*mixer.parameters()]), strict=True):
        assert grad.isfinite().all(), name


@pytest.mark.parametrize("kind", [Mamba, S6])
@pytest.mark.parametrize("width", [5, 24])
def test_a_member_is_the_same_to_the_bit_among_any_others(kind, width: int):
    mixers, x = [kind(width) for _ in range(8)], torch.randn(8, 3, 19, width)
    among = {}
    for size in (2, 3, 8):
        weights = {k: v.detach().requires_grad_() for k, v in stack_module_state(mixers[:size])[0].items()}
        y = vmap(lambda w, x: functional_call(mixers[0], w, (x,)))(weights, x[:size])
        grads = torch.autograd.grad(y.square().sum(), list(weights.values()))
        among[size] = dict(zip(weights, grads, strict=True)) | {"y": y}
    for size in (2, 3):
        for name, value in among[size].items():
            assert torch.equal(value, among[8][name][:size]), f"{name} among {size}"


def test_step_sizes_that_cannot_be_are_refused():
    with pytest.raises(SpecError, match=r"dt_min 0.5 and dt_max 0.1 must satisfy 0 < dt_min <= dt_max"):
        Mamba(8, dt_min=0.5)
