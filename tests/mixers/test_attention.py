"""Attention: the same numbers as GPT-NeoX's, and each of its switches against its formula."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from transformers import GPTNeoXConfig
from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXAttention, GPTNeoXRotaryEmbedding

from recollect.mixers.attention import Attention
from recollect.mixers.base import map_flops
from recollect.mixers.linear_attention import LinearAttention
from recollect.ops.positions import bucket, rotary
from recollect.ops.short_conv import short_conv_definition
from recollect.spec import SpecError
from recollect.testing.mixers import MIXER_CHECKS, causality


def relative_error(got, expected):
    """The largest difference as a share of the largest number expected."""
    return ((got - expected).abs().max() / expected.abs().max()).item()


def neox(width, heads, fraction):
    """transformers' attention block as a function of x, and its module."""
    rope = {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": fraction}
    config = GPTNeoXConfig(
        hidden_size=width, num_attention_heads=heads, rope_parameters=rope, attn_implementation="eager"
    )
    block, turn = GPTNeoXAttention(config, layer_idx=0), GPTNeoXRotaryEmbedding(config)

    def forward(x):
        n = x.shape[1]
        future = torch.full((n, n), -math.inf).triu(1)
        return block(x, future, position_embeddings=turn(x, torch.arange(n)[None]))[0]

    return block, forward


def by_head(weight, heads):
    """[all q, all k, all v] rows to GPT-NeoX's rows: each head's q, k, v together."""
    return weight.unflatten(0, (3, heads, -1)).transpose(0, 1).flatten(0, 2)


def test_key_heads_must_divide_the_heads_and_mimetic_pairs_them():
    with pytest.raises(SpecError, match="kv_heads: 3 does not divide heads 4; choose from: 1, 2, 4"):
        Attention(16, heads=4, kv_heads=3)
    with pytest.raises(SpecError, match="leave out kv_heads"):
        Attention(16, heads=4, kv_heads=2, init="mimetic")


def test_fewer_key_heads_hold_a_smaller_state():
    assert Attention(16, heads=4, kv_heads=1).state_size(10) == 10 * 2 * 4
    assert Attention(16, heads=4, kv_heads=1, forget=True, window=3).state_size(10) == 3 * (2 * 4 + 4)


@pytest.mark.parametrize("length", [1, 2, 63, 65, 257])
@pytest.mark.parametrize(("width", "heads", "fraction"), [(64, 4, 0.25), (64, 4, 1.0), (48, 2, 0.5)])
def test_gpt_neox_parity(length, width, heads, fraction):
    torch.manual_seed(0)
    ours = Attention(width, heads=heads, positions="rotary", rotary_fraction=fraction)
    theirs, forward = neox(width, heads, fraction)
    with torch.no_grad():
        for name, part in (("query_key_value", ours.qkv), ("dense", ours.out)):
            arranged = (lambda w: by_head(w, heads)) if part is ours.qkv else (lambda w: w)
            theirs.get_submodule(name).weight.copy_(arranged(part.weight))
            theirs.get_submodule(name).bias.copy_(arranged(part.bias))

    x = torch.randn(2, length, width)
    mine, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    y, expected = ours(mine), forward(other)
    assert relative_error(y, expected) < 1e-5
    weights = torch.randn_like(y)
    (y * weights).sum().backward()
    (expected * weights).sum().backward()
    assert relative_error(mine.grad, other.grad) < 1e-5
    assert relative_error(ours.out.weight.grad, theirs.dense.weight.grad) < 1e-5
    assert relative_error(ours.out.bias.grad, theirs.dense.bias.grad) < 1e-5
    assert relative_error(by_head(ours.qkv.weight.grad, heads), theirs.query_key_value.weight.grad) < 1e-5
    assert relative_error(by_head(ours.qkv.bias.grad, heads), theirs.query_key_value.bias.grad) < 1e-5


def brute_force(module, x, bias, inputs=None):
    """Attention in float64, a query and a head at a time; `bias(head, t, s)` is added to the scores."""
    inputs = inputs or {}
    heads, width = module.heads, x.shape[-1]
    parts = zip("qkv", module.qkv.weight.chunk(3), module.qkv.bias.chunk(3), strict=True)
    q, k, v = (inputs.get(name, x) @ w.T + b for name, w, b in parts)
    size = width // heads
    y = torch.zeros_like(x)
    for row, h, t in itertools.product(range(x.shape[0]), range(heads), range(x.shape[1])):
        mine = slice(h * size, (h + 1) * size)
        scores = [math.exp(q[row, t, mine] @ k[row, s, mine] / math.sqrt(size) + bias(h, t, s)) for s in range(t + 1)]
        y[row, t, mine] = sum(w * v[row, s, mine] for s, w in enumerate(scores)) / sum(scores)
    return y @ module.out.weight.T + module.out.bias


def module_and_input(length=7, **options):
    torch.manual_seed(0)
    module = Attention(8, **options).double().requires_grad_(False)
    for p in module.parameters():
        p.add_(0.2 * torch.randn_like(p))
    return module, torch.randn(2, length, 8, dtype=torch.float64)


def assert_same(got, expected):
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("window", [0, 1, 5, 12, 50])
def test_operations_count_each_pair_of_a_query_and_a_key_that_it_sees(window):
    length = 12
    pairs = sum(not window or t - s < window for t in range(length) for s in range(t + 1))
    module = Attention(16, heads=2, window=window)
    assert module.flops(length) == map_flops(length, module) + 4 * pairs * 16


@pytest.mark.parametrize("window", [1, 2, 3, 7, 50])
def test_window_sees_the_last_tokens_only(window):
    module, x = module_and_input(heads=2, window=window)
    assert_same(module(x), brute_force(module, x, lambda h, t, s: 0.0 if t - s < window else -math.inf))


@pytest.mark.parametrize("heads", [1, 2, 4, 8])
def test_alibi_lowers_scores_with_distance(heads):
    module, x = module_and_input(heads=heads, positions="alibi")
    assert_same(module(x), brute_force(module, x, lambda h, t, s: -(2 ** (-8 * (h + 1) / heads)) * (t - s)))


def test_hard_alibi_lets_early_heads_see_few_tokens():
    module, x = module_and_input(heads=4, positions="hard_alibi")
    reach = [1, 2, math.inf, math.inf]
    assert_same(module(x), brute_force(module, x, lambda h, t, s: 0.0 if t - s < reach[h] else -math.inf))


def test_hard_alibi_with_one_head_sees_all():
    module, x = module_and_input(heads=1, positions="hard_alibi")
    assert_same(module(x), brute_force(module, x, lambda h, t, s: 0.0))


def test_relative_adds_a_learned_number_a_distance():
    module, x = module_and_input(length=21, heads=2, positions="relative")
    number = {d: d if d < 16 else 16 + int(math.log(d / 16) / math.log(8) * 16) for d in range(21)}
    assert_same(module(x), brute_force(module, x, lambda h, t, s: module.relative[number[t - s], h].item()))


def test_relative_buckets_are_t5s():
    distances = torch.tensor([-3, 0, 1, 15, 16, 20, 30, 64, 127, 128, 5000])
    assert bucket(distances).tolist() == [0, 0, 1, 15, 16, 17, 20, 26, 31, 31, 31]


def test_rotary_turns_pairs_as_complex_numbers():
    x = torch.randn(2, 9, 12, dtype=torch.float64)
    position = torch.arange(9)
    turned = rotary(x, position, fraction=0.7)  # 8 of 12 dims: 4 pairs
    angle = position[:, None] * 10_000.0 ** (-torch.arange(4) / 4)
    expected = torch.complex(x[..., :4], x[..., 4:8]) * torch.polar(torch.ones(9, 4).double(), angle.double())
    torch.testing.assert_close(turned[..., :4], expected.real, rtol=0, atol=1e-5)
    torch.testing.assert_close(turned[..., 4:8], expected.imag, rtol=0, atol=1e-5)
    assert torch.equal(turned[..., 8:], x[..., 8:])


@pytest.mark.parametrize("activation", ["none", "silu"])
@pytest.mark.parametrize("conv", ["q", "k", "v", "qk", "qv", "kv", "qkv"])
def test_convolution_of_any_of_q_k_v(conv, activation):
    module, x = module_and_input(heads=2, conv=conv, kernel=3, conv_activation=activation, window=4)
    after = F.silu if activation == "silu" else torch.nn.Identity()
    inputs = {name: after(short_conv_definition(x, c.weight, c.bias)) for name, c in module.convs.items()}
    assert set(inputs) == set(conv)
    assert_same(module(x), brute_force(module, x, lambda h, t, s: 0.0 if t - s < 4 else -math.inf, inputs))


@pytest.mark.parametrize("conv", ["q", "v", "qkv"])
def test_centred_convolutions(conv):
    module, x = module_and_input(heads=2, conv=conv, kernel=3, conv_causal=False)
    inputs = {
        name: F.conv1d(x.mT, c.weight[:, None], c.bias, padding=1, groups=8).mT for name, c in module.convs.items()
    }
    assert_same(module(x), brute_force(module, x, lambda h, t, s: 0.0, inputs))


@pytest.mark.parametrize("kind", [Attention, LinearAttention])
def test_a_mixer_with_centred_convolutions_keeps_every_rule_but_causality(kind):
    def make():
        return kind(16, conv="v", kernel=3, conv_causal=False)

    needs_it = {"causality", "recurrence", "state_size", "odd_lengths"}
    for rule in MIXER_CHECKS:
        assert rule.name in needs_it or rule.function(make, 16, 33) is None
    with pytest.raises(AssertionError, match=r"not causal: token 1 moves the output by .* at batch row ., position 0"):
        causality(make, 16, 33)
    with pytest.raises(SpecError, match="no recurrent form"):
        make().step(torch.zeros(2, 16), make().initial_state(2))
    assert make().state_size(9) == kind(16, conv="v", kernel=3).state_size(9)


def test_without_biases():
    module = Attention(8, heads=2, bias=False, conv="k")
    names = {name for name, _ in module.named_parameters()}
    assert names == {"qkv.weight", "out.weight", "convs.k.weight", "convs.k.bias"}
    assert module(torch.zeros(1, 3, 8)).shape == (1, 3, 8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heads": 3}, "heads: 3 does not divide width 8; choose from: 1, 2, 4, 8"),
        ({"heads": 0}, "heads: 0 does not divide width 8"),
        ({"positions": "rotery"}, "positions 'rotery': did you mean 'rotary'"),
        ({"rotary_fraction": 1.5}, "rotary_fraction 1.5"),
        ({"dropout": 1.0}, "dropout 1.0"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(SpecError, match=message):
        Attention(8, **options)
