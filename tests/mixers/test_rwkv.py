"""RWKV in its three versions: right against an independent implementation (v4) or its paper's formulas (v6, v7)."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import RwkvConfig
from transformers.models.rwkv.modeling_rwkv import RwkvSelfAttention

from recollect.mixers.rwkv import RWKV
from recollect.mixers.rwkv6 import RWKV6
from recollect.mixers.rwkv7 import RWKV7
from recollect.spec import SpecError

THEIR_NAMES = {
    "time_mix_k": "time_mix_key", "time_mix_v": "time_mix_value", "time_mix_r": "time_mix_receptance",
    "out.weight": "output.weight",
}  # fmt: skip


def relative(got: Tensor, wanted: Tensor) -> float:
    return ((got - wanted).norm() / wanted.norm().clamp_min(1e-12)).item()


@pytest.mark.parametrize("length", [1, 2, 63, 65, 257])
@pytest.mark.parametrize("width", [7, 16])
def test_version_4_equals_transformers_in_outputs_and_all_gradients(length: int, width: int):
    ours = RWKV(width, layer=1, layers=2)
    theirs = RwkvSelfAttention(RwkvConfig(hidden_size=width, num_hidden_layers=2, vocab_size=8), layer_id=1)
    for parameter in ours.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    their_parameters = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        their_parameters[THEIR_NAMES.get(name, name)].data.view(parameter.shape).copy_(parameter.data)

    x, weight = torch.randn(2, length, width, requires_grad=True), torch.randn(2, length, width)
    y, wanted = ours(x), theirs(x)[0]
    assert relative(y, wanted) < 1e-5
    names = [name for name, _ in ours.named_parameters()]
    leaves = [x, *(their_parameters[THEIR_NAMES.get(name, name)] for name in names)]
    wanted_grads = torch.autograd.grad((wanted * weight).sum(), leaves, allow_unused=True, materialize_grads=True)
    grads = torch.autograd.grad((y * weight).sum(), [x, *ours.parameters()])
    for name, got, right in zip(["x", *names], grads, wanted_grads, strict=True):
        assert relative(got, right.view_as(got)) < 1e-5, name


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_version_4_starts_as_its_paper_says(layers: int):
    first, last = RWKV(6, layer=0, layers=layers), RWKV(6, layer=layers - 1, layers=layers)
    torch.testing.assert_close(first.time_decay[[0, -1]], torch.tensor([-5.0, 3.0]))
    torch.testing.assert_close(first.time_mix_k, torch.arange(6) / 6)
    torch.testing.assert_close(first.time_first[:3].exp(), 0.3 * torch.tensor([0.0, 0.5, -0.5]).exp())
    if layers > 1:
        assert (last.time_decay[1:-1] < first.time_decay[1:-1]).all()  # later layers remember longer


def version_6(m: RWKV6, x: Tensor) -> Tensor:
    """Token by token from the paper's formulas, for one row (length, width)."""
    width, dim = x.shape[1], m.dim
    last, S, out = torch.zeros(width, dtype=x.dtype), torch.zeros(width // dim, dim, dim, dtype=x.dtype), []
    for now in x:
        low = torch.tanh((now + (last - now) * m.mix_x) @ m.mix_A).chunk(5)
        w, k, v, r, g = (now + (last - now) * (m.mu[c] + low[c] @ m.mix_B[c]) for c in range(5))
        w = torch.exp(-torch.exp(m.decay + torch.tanh(w @ m.decay_A) @ m.decay_B)).view(-1, dim, 1)
        r, k, v = (t.view(-1, dim) for t in (m.receptance(r), m.key(k), m.value(v)))
        kv = torch.einsum("hi,hj->hij", k, v)
        y = torch.einsum("hi,hij->hj", r, S + m.bonus[..., None] * kv)
        S, last = w * S + kv, now
        y = F.group_norm(y.view(1, -1), len(S), m.norm.weight.flatten(), m.norm.bias.flatten(), eps=64e-5)[0]
        out.append(m.out(y * F.silu(m.gate(g))))
    return torch.stack(out)


def version_7(m: RWKV7, x: Tensor) -> Tensor:
    """Token by token from the paper's formulas, for one row (length, width)."""
    width, dim = x.shape[1], m.dim
    last, S, out = torch.zeros(width, dtype=x.dtype), torch.zeros(width // dim, dim, dim, dtype=x.dtype), []
    for now in x:
        r, w, k, v, a, g = (now + (last - now) * mu for mu in m.mu)
        w = torch.exp(-torch.exp(-F.softplus(-(m.decay + torch.tanh(w @ m.decay_A) @ m.decay_B)) - 0.5))
        a = torch.sigmoid(m.rate + a @ m.rate_A @ m.rate_B)
        g = torch.sigmoid(g @ m.gate_A) @ m.gate_B
        r, k, v = m.receptance(r), m.key(k), m.value(v)
        kappa = (k * m.removal).view(-1, dim)
        kappa = kappa / kappa.norm(dim=-1, keepdim=True)
        k = (k * (1 + (a - 1) * m.replacement)).view(-1, dim)
        r, w, v, a = (t.view(-1, dim) for t in (r, w, v, a))
        turn = torch.diag_embed(w) - torch.einsum("hi,hj->hij", kappa, a * kappa)
        S = S @ turn + torch.einsum("hi,hj->hij", v, k)
        y = torch.einsum("hij,hj->hi", S, r)
        y = F.group_norm(y.view(1, -1), len(S), m.norm.weight.flatten(), m.norm.bias.flatten(), eps=64e-5)[0]
        y = y + ((r * m.bonus * k).sum(-1, keepdim=True) * v).flatten()
        last = now
        out.append(m.out(y * g))
    return torch.stack(out)


@pytest.mark.parametrize("length", [1, 2, 40])
@pytest.mark.parametrize(("kind", "slow"), [(RWKV6, version_6), (RWKV7, version_7)])
def test_later_versions_are_their_formulas(kind: type, slow, length: int):
    mixer = kind(12, layer=1, layers=3, head_dim=4).double()
    for parameter in mixer.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    x = torch.randn(2, length, 12, dtype=torch.float64)
    wanted = torch.stack([slow(mixer, row) for row in x])
    torch.testing.assert_close(mixer(x), wanted, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", [RWKV6, RWKV7])
def test_later_versions_start_without_dependence_of_their_decay_on_the_input(kind: type):
    mixer = kind(16, layer=0, layers=1)
    assert mixer.decay_A.abs().max() == 0
    assert mixer.decay[-1].item() == pytest.approx(-1 if kind is RWKV6 else -1.5)
    assert (mixer.decay.diff() >= 0).all()  # the last channels forget fastest


@pytest.mark.parametrize("kind", [RWKV, RWKV6, RWKV7])
def test_large_inputs_and_long_rows_stay_finite(kind: type):
    mixer = kind(4, layer=0, layers=1)
    x = (1e3 * torch.randn(1, 4096, 4)).requires_grad_()
    y = mixer(x)
    grads = torch.autograd.grad(y.sum(), [x, *mixer.parameters()])
    assert all(t.isfinite().all() for t in (y, *grads))


@pytest.mark.parametrize("kind", [RWKV, RWKV6, RWKV7])
def test_a_layer_that_is_not_there_is_an_error(kind: type):
    with pytest.raises(SpecError, match="layer 2 is not one of 2 layers; choose from 0 to 1"):
        kind(8, layer=2, layers=2)


@pytest.mark.parametrize("kind", [RWKV6, RWKV7])
def test_heads_that_do_not_divide_the_width_are_an_error(kind: type):
    with pytest.raises(SpecError, match="head_dim: 5 does not divide width 12; choose from: 1, 2, 3, 4, 6, 12"):
        kind(12, layer=0, layers=2, head_dim=5)
