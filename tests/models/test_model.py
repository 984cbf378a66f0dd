"""The frame around the mixers: residuals, norms, positions, hybrids, decoding."""

import copy
import math

import pytest
import torch
from torch import nn

from recollect.mixers import MIXERS
from recollect.mixers.attention import Attention
from recollect.models.layers import MLP
from recollect.models.model import build
from recollect.models.spec import ModelSpec
from recollect.spec import SpecError

ATTENTION = {"mixer": {"kind": "attention", "heads": 2}, "parallel": True}
HYBRIDS = {
    "interleaved": {
        "pattern": "MMT", "blocks": {"M": {"mixer": "mamba2", "mlp": "none"}, "T": ATTENTION}, "layers": 4, "positions": "rotary",
    },
    "two-stream": {"mixer": "mamba", "mlp": "none", "positions": "rotary", "second": {"block": ATTENTION}},
    "reverse, vector": {"mixer": "mamba2", "mlp": "none", "second": {"block": ATTENTION, "gate": "vector", "gated": "first"}},
    "no gate": {"mixer": "deltanet", "mlp": "none", "second": {"block": {"mixer": "attention"}, "gate": "none"}},
}  # fmt: skip
FRAMES = {
    **{kind: {"mixer": kind} for kind in MIXERS},
    **HYBRIDS,
    **{f"{name}, released": {**fields, "residual": "released"} for name, fields in HYBRIDS.items()},
    "untied swiglu rms": {"tie": False, "mlp": "swiglu", "norm": "rms"},
    "identity": {"mlp": "identity", "positions": "sinusoidal"},
    "relative mamba": {"mixer": "mamba", "positions": "relative"},
    "canon": {"mixer": ATTENTION["mixer"], "canon": "ABCD"},
    "canon, swiglu, parallel": {"mixer": "mamba2", "canon": "ACD", "mlp": "swiglu", "parallel": True},
}


def model_of(fields: dict, length: int = 12):
    model = build(ModelSpec(**{"width": 16, "layers": 2, **fields}), vocabulary=30, length=length, seed=1).double()
    with torch.no_grad():  # gates start at zero, and would hide what they gate
        for p in model.parameters():
            p += 0.1 * torch.randn(p.shape, generator=torch.Generator().manual_seed(p.numel()))
    return model


TOKENS = torch.randint(0, 30, (3, 12), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", FRAMES)
def test_step_after_step_gives_what_forward_gives(name):
    model, state, logits = model_of(FRAMES[name]), None, []
    with torch.no_grad():
        state = model.initial_state(3)
        for token in TOKENS.unbind(1):
            out, state = model.step(token, state)
            logits.append(out)
        torch.testing.assert_close(torch.stack(logits, 1), model(TOKENS), rtol=0, atol=1e-9)
    held = sum(x[0].numel() for layer in state[:-1] for x in layer.values() if x.is_floating_point())
    assert held == model.state_size(12)


def test_sinusoidal_positions_are_beside_the_tokens_as_large_as_where_they_come_from():
    spec = ModelSpec(mixer="attention", width=64, layers=1, positions="sinusoidal")
    model, tokens = build(spec, vocabulary=1000, length=32, seed=1), torch.arange(320).reshape(10, 32)
    table = model.embedding(tokens)
    added = model._embed(tokens, torch.arange(32)) - table
    ratio = (added.square().mean() / table.square().mean()).sqrt().item()
    assert ratio == pytest.approx(math.sqrt(0.5), rel=0.05), "sines and cosines against unit variance"


@pytest.mark.parametrize("name", FRAMES)
def test_greedy_decoding_equals_decoding_by_whole_rows(name):
    model = model_of(FRAMES[name], length=16)
    row = TOKENS
    with torch.no_grad():
        for _ in range(4):
            row = torch.cat([row, model(row)[:, -1].argmax(-1, keepdim=True)], dim=1)
    assert torch.equal(model.decode(TOKENS, 4), row[:, 12:])


@pytest.mark.parametrize("name", FRAMES)
def test_logits_at_answers_are_those_of_the_whole_row(name):
    model = model_of(FRAMES[name])
    positions = torch.tensor([[1, 5], [0, 11], [3, 3]])
    with torch.no_grad():
        whole = model(TOKENS)
        torch.testing.assert_close(
            model(TOKENS, positions), whole[torch.arange(3)[:, None], positions], rtol=0, atol=1e-12
        )


def test_the_decoder_distinguishes_answers_that_are_read_at_one_place():
    model = build(ModelSpec(mixer="mamba", width=16, layers=1, tie=False, head="autoencoder"), 8, 6, seed=0).double()
    tokens, last = torch.randint(8, (3, 6)), torch.full((3, 6), 5)
    with torch.no_grad():
        x = model.hidden(tokens)[:, 5:]  # the one output that all answers are read from
        place, frequency = torch.arange(6.0)[:, None], 10_000.0 ** (-torch.arange(0, 16, 2) / 16)
        x = x + torch.stack([(place * frequency).sin(), (place * frequency).cos()], dim=-1).flatten(1).double()
        for norm, linear in zip(model.decoder.norms, model.decoder.linears, strict=True):
            x = torch.nn.functional.gelu(linear(norm(x)))
        expected = model.head(model.norm(x))
        assert torch.allclose(model(tokens, last), expected, atol=1e-6)
    assert model.flops(6, 6) > build(model.spec.changed(head="linear"), 8, 6, seed=0).flops(6, 6)
    with pytest.raises(SpecError, match="has no next token"):
        model.step(tokens[:, 0], model.initial_state(3))


def test_residuals_of_the_published_code():
    x = torch.randn(2, 3, 16, dtype=torch.float64)
    first, second = torch.randn_like(x), torch.randn_like(x)
    interleaved = model_of({**HYBRIDS["interleaved"], "residual": "released"})
    torch.testing.assert_close(interleaved._add(x, 0, first, None), 2 * x + first)
    two = model_of({**HYBRIDS["two-stream"], "residual": "released"})
    g = torch.tanh(two.gates[0])
    torch.testing.assert_close(two._add(x, 0, first, second), (1 + g) * x + first + g * second)
    reverse = model_of({**HYBRIDS["reverse, vector"], "residual": "released"})
    g = torch.tanh(reverse.gates[0])
    torch.testing.assert_close(reverse._add(x, 0, first, second), 2 * x + second + g * first)
    clean = model_of(HYBRIDS["two-stream"])
    torch.testing.assert_close(clean._add(x, 0, first, second), x + first + torch.tanh(clean.gates[0]) * second)


def test_released_pads_the_vocabulary_and_leaves_attention_as_pytorch_makes_it():
    model = build(ModelSpec(**HYBRIDS["two-stream"], width=64, residual="released"), vocabulary=33, length=8, seed=0)
    assert model.embedding.weight.shape[0] == 40
    assert model(TOKENS[:, :8]).shape[-1] == 33
    assert model.second[0].mixer.qkv.weight.abs().max() <= 1 / math.sqrt(64), "uniform within 1/sqrt(width)"
    assert model.layers[0].mixer.in_proj.weight.std().item() == pytest.approx(0.02, rel=0.1)


def test_a_new_two_stream_model_starts_with_its_gate_shut():
    model = build(ModelSpec(**HYBRIDS["two-stream"], width=16), vocabulary=30, length=12, seed=0)
    alone = build(ModelSpec(mixer="mamba", mlp="none", width=16, positions="none"), vocabulary=30, length=12, seed=0)
    alone.load_state_dict({name: p for name, p in model.state_dict().items() if name in alone.state_dict()})
    torch.testing.assert_close(model(TOKENS), alone(TOKENS))


def test_initial_weights_have_the_stated_laws_and_follow_the_seed():
    spec = ModelSpec(mixer="attention", width=128, layers=4)
    before = torch.get_rng_state()
    model, again, other = (build(spec, 100, 16, seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before), "PyTorch's own generator is left as it was"
    for (name, p), q, r in zip(model.named_parameters(), again.parameters(), other.parameters(), strict=True):
        assert torch.equal(p, q), name
        assert not torch.equal(p, r) or p.std() == 0 or p.numel() == 1, name
    assert model.layers[0].mixer.qkv.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert model.layers[0].mixer.out.weight.std().item() == pytest.approx(0.02 / math.sqrt(8), rel=0.05)
    assert model.layers[0].mlp.out.weight.std().item() == pytest.approx(0.02 / math.sqrt(8), rel=0.05)


class Readout(nn.Module):
    """Two linear maps, of which one ends a residual branch."""

    def __init__(self, width: int):
        super().__init__()
        self.my_readout = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        return self.out(self.my_readout(x))


def test_only_a_map_that_is_called_out_starts_smaller():
    mixer = build(ModelSpec(mixer=Readout, width=128, layers=4), 100, 16, 0).layers[0].mixer
    assert mixer.my_readout.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert mixer.out.weight.std().item() == pytest.approx(0.02 / math.sqrt(8), rel=0.05)


class Asks(Readout):
    wants_positions = True


class Derived(Asks):
    """Derived from one that asks, which is not to ask."""


@pytest.mark.parametrize(
    ("fields", "positions"),
    [
        ({}, "learned"),
        ({"mixer": "based"}, "learned"),
        ({"mixer": "mamba"}, "none"),
        ({"mixer": Asks}, "learned"),
        ({"mixer": Readout}, "none"),
        ({"mixer": Derived}, "none"),
        ({"mixer": Attention}, "learned"),
        ({"mixer": "mamba", "positions": "sinusoidal"}, "sinusoidal"),
        ({"mixer": "attention", "positions": None}, "learned"),
        ({"pattern": "M", "blocks": {"M": {"mixer": "mamba"}, "T": {"mixer": "attention"}}}, "learned"),
        ({"pattern": "M", "blocks": {"M": {"mixer": "mamba"}}}, "none"),
        ({"mixer": "mamba", "second": {"block": {"mixer": "attention"}}}, "none"),
    ],
)
def test_positions_left_out_are_what_the_mixers_ask_for(fields, positions):
    spec = ModelSpec(**fields)
    assert spec.positions == positions
    assert spec.canonical()["positions"] == positions, "the identity says which"
    assert ModelSpec(**{**fields, "positions": positions}) == spec


def test_mlp_none_leaves_out_norms_and_identity_adds_a_normalised_copy():
    none, identity = (build(ModelSpec(mlp=mlp, width=16, layers=1), 30, 12, 0) for mlp in ("none", "identity"))
    x = torch.randn(1, 3, 16)
    mixed = none.layers[0].mixer(none.layers[0].norm_mixer(x))
    torch.testing.assert_close(none.layers[0](x), mixed)
    layer = identity.layers[0]
    mixed = layer.mixer(layer.norm_mixer(x))
    torch.testing.assert_close(layer(x), mixed + layer.norm_mlp(x + mixed))


@pytest.mark.parametrize("norm", [nn.LayerNorm(8), nn.RMSNorm(8, eps=1e-5)], ids=["layer", "rms"])
@pytest.mark.parametrize(
    "part", [MLP(8, 12, gated=False), MLP(8, 12, gated=True), Attention(8, heads=2), Attention(8, bias=False)],
    ids=["gelu", "swiglu", "attention", "attention without biases"],
)  # fmt: skip
def test_a_part_that_takes_its_norm_inside_is_the_part_after_the_norm(norm, part):
    torch.manual_seed(0)
    norm, part = copy.deepcopy(norm).double(), copy.deepcopy(part).double()
    x = torch.randn(2, 5, 8, dtype=torch.float64, requires_grad=True)
    leaves = [x, *norm.parameters(), *part.parameters()]
    for leaf in leaves[1:]:
        nn.init.normal_(leaf)
    both = [[y, *torch.autograd.grad(y.square().sum(), leaves)] for y in (part.after_norm(norm, x), part(norm(x)))]
    for inside, outside in zip(*both, strict=True):
        torch.testing.assert_close(inside, outside)


def test_hooks_run_on_parts_that_take_their_norm_inside(monkeypatch):
    monkeypatch.setattr("recollect.ops.fused.trains_on_gpu", lambda x: torch.is_grad_enabled())
    model = build(ModelSpec(mixer="attention", width=8, layers=1), 16, 6, seed=0)
    tokens, inputs = torch.arange(6)[None], []
    inside = model(tokens)
    for part in (model.layers[0].mixer, model.layers[0].mlp):
        part.register_forward_pre_hook(lambda part, given: inputs.append(given[0]))
    torch.testing.assert_close(model(tokens), inside)
    assert len(inputs) == 2
    assert all(x.mean(-1).abs().max() < 1e-5 for x in inputs), "they are given what the norm gives"


def test_a_mixer_derived_from_attention_keeps_its_own_forward(monkeypatch):
    class Twice(Attention):
        def forward(self, x):
            return 2 * super().forward(x)

    monkeypatch.setattr("recollect.ops.fused.trains_on_gpu", lambda x: True)
    model = build(ModelSpec(mixer="attention", width=8, layers=1), 16, 6, seed=0)
    x, once = torch.randn(1, 6, 8), model.layers[0].mixer
    model.layers[0].mlp = nn.Identity()
    model.layers[0].norm_mlp = None
    before = model.layers[0](x)
    model.layers[0].mixer = Twice(8)
    model.layers[0].mixer.load_state_dict(once.state_dict())
    torch.testing.assert_close(model.layers[0](x), 2 * before)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mixer": {"kind": "attention", "heads": 3}}, "3 does not divide width 16; choose from: 1, 2, 4, 8, 16"),
        ({"mixer": {"kind": "linear_attention", "feature": "cosine"}}, "'elu', 'relu', 'identity' or 'taylor'"),
        ({"pattern": "MX", "blocks": {"M": {"mixer": "mamba"}}}, "letter 'X' has no block"),
        ({"blocks": {"M": {"mixer": "mamba"}}}, "no pattern"),
        ({"mixer": "mamba", "positions": "alibi"}, "act inside attention"),
        ({"positions": "absolute"}, "'learned', 'sinusoidal'"),
    ],
)
def test_bad_models_are_refused_with_the_value_and_the_choices(fields, message):
    with pytest.raises(ValueError, match=message):
        build(ModelSpec(**{"width": 16, **fields}), 30, 12, 0)


def test_a_row_beyond_the_table_of_positions_is_refused():
    with pytest.raises(SpecError, match=r"a row of 13 tokens is longer than the table of learned positions \(12\)"):
        model_of({})(torch.zeros(1, 13, dtype=torch.int64))


@pytest.mark.parametrize("mlp", ["gelu", "swiglu"])
def test_canon_layers_have_four_positions(mlp):
    """The layer of a model with all four, written out from its weights."""
    layer = model_of({"mixer": ATTENTION["mixer"], "canon": "ABCD", "mlp": mlp, "layers": 1}).layers[0]
    x = torch.randn(2, 9, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(3))

    def canon(part, seen):
        taps, padded = part.weight, nn.functional.pad(seen, (0, 0, 3, 0))
        return seen + sum(padded[:, j : j + 9] * taps[:, j] for j in range(4))

    mixer = layer.mixer
    q, k, v = canon(mixer.canon, mixer.qkv(canon(layer.canon_mixer, layer.norm_mixer(x)))).chunk(3, -1)
    q, k, v = (t.unflatten(-1, (2, -1)).transpose(1, 2) for t in (q, k, v))
    attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    mixed = mixer.out(attended.transpose(1, 2).flatten(2))
    hidden = canon(layer.mlp.canon, layer.mlp.into(canon(layer.canon_mlp, layer.norm_mlp(x + mixed))))
    if mlp == "gelu":
        hidden = nn.functional.gelu(hidden)
    else:
        left, right = hidden.chunk(2, -1)
        hidden = nn.functional.silu(left) * right
    torch.testing.assert_close(layer(x), mixed + layer.mlp.out(hidden), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mixer": "mamba", "canon": "AB"}, "B is inside attention, which mamba does not have"),
        ({"canon": "C", "mlp": "none"}, "C and D belong to an MLP"),
        ({"canon": "D", "mlp": "identity"}, "C and D belong to an MLP"),
        ({"pattern": "T", "blocks": {"T": ATTENTION}, "canon": "A"}, "give it in `blocks`"),
        ({"canon": "BA"}, "match pattern"),
    ],
)
def test_a_canon_layer_without_a_place_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        ModelSpec(**fields)


class Broadcasts(nn.Module):
    def __init__(self, width: int, *, pair: bool = False):
        super().__init__()
        self.pair = pair

    def forward(self, x: torch.Tensor):
        return (x, x) if self.pair else x[..., :1]


@pytest.mark.parametrize(("pair", "gives"), [(False, r"\(1, 5, 1\)"), (True, "tuple")])
def test_what_a_mixer_returns_must_have_the_shape_of_its_input(pair, gives):
    mixer = {"kind": f"{__name__}:Broadcasts", "pair": pair}
    model = build(ModelSpec(mixer=mixer, width=8), vocabulary=30, length=5, seed=1)
    with pytest.raises(
        SpecError, match=rf"Broadcasts: input \(1, 5, 8\) gives output {gives}: the shapes must be equal"
    ):
        model(torch.zeros(1, 5, dtype=torch.long))
