"""DeltaNet, Gated DeltaNet, GLA and RetNet: agreement with transformers, gates at their ends, wrong options."""

import math
import sys

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from recollect.mixers.base import map_flops
from recollect.mixers.deltanet import DeltaNet
from recollect.mixers.gated_deltanet import GatedDeltaNet
from recollect.mixers.gla import GLA
from recollect.mixers.retnet import RetNet
from recollect.ops.delta_rule import delta_rule, solve_flops
from recollect.spec import SpecError

with pytest.MonkeyPatch.context() as hidden:
    hidden.setitem(sys.modules, "fla", None)  # transformers would take its kernels, which need a GPU
    from transformers.models.qwen3_next.configuration_qwen3_next import Qwen3NextConfig
    from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextGatedDeltaNet

FAMILY = [DeltaNet, GatedDeltaNet, GLA, RetNet]


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def reference(ours: GatedDeltaNet) -> Qwen3NextGatedDeltaNet:
    """transformers' layer with our weights: theirs lie head by head (q, k, v, z), ours one after the other."""
    heads, width, values = ours.heads, ours.out.out_features, ours.out.in_features
    config = Qwen3NextConfig(
        hidden_size=width, linear_num_value_heads=heads, linear_num_key_heads=heads, linear_key_head_dim=width // heads,
        linear_value_head_dim=values // heads, linear_conv_kernel_dim=ours.conv.weight.shape[1], num_hidden_layers=1,
        layer_types=["linear_attention"], rms_norm_eps=ours.norm.eps,
    )  # fmt: skip
    theirs = Qwen3NextGatedDeltaNet(config, 0)
    parts = (*ours.qkv.weight.split((width, width, values)), ours.z.weight)
    by_head = [w.unflatten(0, (heads, -1)) for w in parts]
    gates = [w.unflatten(0, (heads, -1)) for w in (ours.beta.weight, ours.a.weight)]
    weights = {
        "in_proj_qkvz.weight": torch.cat(by_head, dim=1).flatten(0, 1),
        "in_proj_ba.weight": torch.cat(gates, dim=1).flatten(0, 1),
        "conv1d.weight": ours.conv.weight[:, None],
        "dt_bias": ours.dt_bias,
        "A_log": ours.A_log,
        "norm.weight": ours.norm.weight,
        "out_proj.weight": ours.out.weight,
    }
    theirs.load_state_dict(weights)
    return theirs


def like_ours(theirs: Qwen3NextGatedDeltaNet, heads: int) -> dict[str, Tensor]:
    """The gradients of transformers' layer under our names and in our order."""
    grad = {name: p.grad for name, p in theirs.named_parameters()}
    dim, dim_v = theirs.head_k_dim, theirs.head_v_dim
    by_head = grad["in_proj_qkvz.weight"].unflatten(0, (heads, -1)).split((dim, dim, dim_v, dim_v), dim=1)
    q, k, v, z = (t.flatten(0, 1) for t in by_head)
    beta, a = grad["in_proj_ba.weight"].unflatten(0, (heads, 2)).transpose(0, 1)
    return {
        "qkv.weight": torch.cat([q, k, v]), "z.weight": z, "beta.weight": beta, "a.weight": a,
        "conv.weight": grad["conv1d.weight"][:, 0], "dt_bias": grad["dt_bias"], "A_log": grad["A_log"],
        "norm.weight": grad["norm.weight"], "out.weight": grad["out_proj.weight"],
    }  # fmt: skip


def relative(a: Tensor, b: Tensor) -> float:
    return ((a - b).abs().max() / b.abs().max().clamp(min=1e-30)).item()


@pytest.mark.parametrize("length", [1, 2, 63, 65, 257])
@pytest.mark.parametrize(
    ("width", "heads", "options"),
    [(32, 2, {"norm_eps": 1e-6}), (15, 3, {}), (14, 1, {}), (16, 2, {"expand_v": 2}), (15, 3, {"expand_v": 3})],
)
def test_gated_deltanet_is_transformers(length, width, heads, options):
    ours = GatedDeltaNet(width, heads=heads, **options)
    theirs = reference(ours)
    x = torch.randn(2, length, width, requires_grad=True)
    weight = torch.randn(2, length, width)
    y, y_theirs = ours(x), theirs(x)
    assert relative(y, y_theirs) < 1e-5
    (grad,) = torch.autograd.grad((y_theirs * weight).sum(), x, retain_graph=True)
    (y_theirs * weight).sum().backward(inputs=list(theirs.parameters()))
    expected = like_ours(theirs, heads)
    (got,) = torch.autograd.grad((y * weight).sum(), x, retain_graph=True)
    assert relative(got, grad) < 1e-5
    (y * weight).sum().backward(inputs=list(ours.parameters()))
    for name, p in ours.named_parameters():
        assert relative(p.grad, expected[name]) < 1e-5, name


@pytest.mark.parametrize(
    ("options", "eps", "values"),
    [({}, 1e-5, 4), ({"norm_eps": 0.1, "expand_v": 2}, 0.1, 8), ({"beta_max": 2}, 1e-5, 4)],
)
def test_deltanet_written_out(options, eps, values):
    mixer = DeltaNet(12, heads=3, **options).double()
    x = torch.randn(2, 10, 12, dtype=torch.float64)
    parts = mixer.conv(mixer.qkv(x)).split((12, 12, 3 * values), dim=-1)
    q, k, v = (t.unflatten(-1, (3, -1)) for t in parts)
    q, k = (t / (t.square().sum(-1, keepdim=True) + 1e-6).sqrt() for t in (q, k))
    beta = options.get("beta_max", 1) * torch.sigmoid(mixer.beta(x))
    memory, out = torch.zeros(2, 3, values, 4, dtype=torch.float64), []  # (values, keys), as in the paper
    for t in range(10):
        outer = k[:, t, :, :, None] * k[:, t, :, None, :]
        rate = beta[:, t, :, None, None]
        memory = memory @ (torch.eye(4) - rate * outer) + rate * v[:, t, :, :, None] * k[:, t, :, None, :]
        out.append((memory @ q[:, t, :, :, None])[..., 0] / 2)
    y = torch.stack(out, 1)
    y = y / (y.square().mean(-1, keepdim=True) + eps).sqrt()
    torch.testing.assert_close(mixer(x), mixer.out(y.flatten(2)))


def test_beta_of_two_flips_the_sign_of_what_a_key_holds():
    """A write of zero with beta 2 negates what is held: after n of them the sign is the parity of n."""
    k = torch.tensor([[[[1.0, 0.0]]]]).expand(1, 1, 6, 2)
    v = torch.tensor([1.0, 0, 0, 0, 0, 0])[None, None, :, None]
    beta = torch.tensor([[[1.0, 2, 2, 2, 2, 2]]])
    assert delta_rule(k, k, v, beta).flatten().tolist() == [1, -1, 1, -1, 1, -1]


@pytest.mark.parametrize(("options", "eps"), [({}, 1e-5), ({"norm_eps": 0.1}, 0.1)])
def test_gla_written_out(options, eps):
    mixer = GLA(12, heads=3, **options).double()
    x = torch.randn(2, 10, 12, dtype=torch.float64)
    q, k, v, log_alpha = mixer._project(x)
    memory, out = torch.zeros(2, 3, 2, 4, dtype=torch.float64), []
    for t in range(10):
        memory = log_alpha[:, t].exp()[..., None] * memory + k[:, t, :, :, None] * v[:, t, :, None, :]
        out.append(torch.einsum("bhi,bhij->bhj", q[:, t], memory))
    y = torch.stack(out, 1)
    y = y / (y.square().mean(-1, keepdim=True) + eps).sqrt()
    torch.testing.assert_close(mixer(x), mixer.out(y.flatten(2) * nn.functional.silu(mixer.r(x))))


@pytest.mark.parametrize("mixer", [DeltaNet, GatedDeltaNet])
@pytest.mark.parametrize(("expand_v", "state"), [(1, 2 * 8 * 8), (2, 2 * 8 * 16), (3, 2 * 8 * 24)])
def test_wider_values_enlarge_the_memory(mixer, expand_v, state):
    module = mixer(16, heads=2, expand_v=expand_v)
    assert module.initial_state(1)["S"].numel() == state
    assert module.state_size(9) == state + 3 * (2 + expand_v) * 16


def test_gated_deltanet_starts_with_mamba2s_time_steps():
    mixer = GatedDeltaNet(64, heads=64)
    dt = nn.functional.softplus(mixer.dt_bias)
    assert dt.min() >= 0.99e-3
    assert dt.max() <= 0.101
    assert 0.01 <= mixer.A_log.exp().min() <= mixer.A_log.exp().max() <= 16


def test_gla_decays_are_roots_of_sigmoids_per_channel():
    mixer = GLA(16, heads=2)
    x = torch.randn(3, 5, 16)
    log_alpha = mixer._project(x)[3]
    assert log_alpha.shape == (3, 5, 2, 4)  # keys are half as long as values
    torch.testing.assert_close(log_alpha.exp() ** 16, mixer.decay(x).sigmoid().unflatten(-1, (2, 4)))


def test_retnet_written_out():
    mixer = RetNet(8, heads=2).double()
    x = torch.randn(1, 6, 8, dtype=torch.float64)
    q, k, v = (t.transpose(1, 2) for t in mixer._project(x, torch.arange(6)))  # (1, 2, 6, 4)
    apart = torch.arange(6)[:, None] - torch.arange(6)
    gamma = torch.tensor([1 - 2**-5, 1 - 2**-6], dtype=torch.float64)[:, None, None]
    y = ((q @ k.mT) * (gamma ** apart.clamp(min=0)).tril()) @ v
    y = y / (y.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    expected = mixer.out(y.transpose(1, 2).flatten(2) * nn.functional.silu(mixer.g(x)))
    torch.testing.assert_close(mixer(x), expected)
    scores = q @ k.mT
    later = mixer._project(x, torch.arange(100, 106))
    torch.testing.assert_close(later[0].transpose(1, 2) @ later[1].transpose(1, 2).mT, scores, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mixer", FAMILY)
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e4])
def test_gates_at_their_ends_stay_finite(mixer, scale):
    module = mixer(8)
    x = (scale * torch.randn(1, 600, 8)).requires_grad_()
    y = module(x)
    grads = torch.autograd.grad(y.square().sum(), [x, *module.parameters()])
    assert all(t.isfinite().all() for t in (y, *grads))


@pytest.mark.parametrize("mixer", FAMILY)
def test_4096_tokens_stay_finite(mixer):
    module = mixer(8)
    x = torch.randn(1, 4096, 8, requires_grad=True)
    y = module(x)
    assert y.isfinite().all()
    assert all(g.isfinite().all() for g in torch.autograd.grad(y.square().sum(), [x, *module.parameters()]))


@pytest.mark.parametrize("mixer", FAMILY)
@pytest.mark.parametrize("heads", [0, 3])
def test_heads_must_divide_the_width(mixer, heads):
    with pytest.raises(SpecError, match=f"heads: {heads} does not divide width 8; choose from: 1, 2, 4, 8"):
        mixer(8, heads=heads)


@pytest.mark.parametrize("mixer", [DeltaNet, GatedDeltaNet])
@pytest.mark.parametrize("beta_max", [0, 2.5])
def test_a_rule_that_diverges_or_does_not_write_is_refused(mixer, beta_max):
    with pytest.raises(SpecError, match=f"beta_max {beta_max}"):
        mixer(8, beta_max=beta_max)


@pytest.mark.parametrize("mixer", FAMILY)
@pytest.mark.parametrize("width", [32, 64, 257])
def test_any_width_trains(mixer, width):
    module = mixer(width, heads=1 if width == 257 else 2)
    y = module(torch.randn(2, 5, width))
    y.square().sum().backward()
    assert y.shape == (2, 5, width)
    assert all(p.grad is not None and p.grad.isfinite().all() and p.grad.any() for p in module.parameters())


@pytest.mark.parametrize(  # RetNet counts its recurrence, not its chunks
    ("mixer", "options"), [(DeltaNet, {}), (GatedDeltaNet, {}), (GatedDeltaNet, {"expand_v": 3}), (GLA, {})]
)
def test_flops_against_a_count_of_the_matrix_products(mixer, options):
    module = mixer(16, **options)
    with FlopCounterMode(display=False) as counter:
        module(torch.randn(1, 64, 16))
    uncounted = {GLA: 2 * 3 * 4 * 64 * 16}.get(mixer, 0)  # the scores of pairs, three factors each
    if isinstance(module, DeltaNet):
        uncounted = 2 * solve_flops(64, 8 * options.get("expand_v", 1)) + map_flops(64, module.conv)
    assert module.flops(64) == counter.get_total_flops() + uncounted
    assert math.isclose(module.flops(4096) / module.flops(2048), 2, rel_tol=0.05)  # linear in the length
