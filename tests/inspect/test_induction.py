"""Induction scores, of weights and of models that were made by hand."""

import pytest
import torch

from recollect.inspect.induction import (
    induction_scores,
    prefix_matching_score,
    previous_token_score,
    repeated_tokens,
)
from recollect.models.model import Model, build
from recollect.models.spec import ModelSpec
from recollect.spec import SpecError

VOCABULARY = 12


def test_a_head_that_looks_one_back_and_one_that_looks_at_itself():
    length = 9
    one_back = torch.eye(length).roll(1, 0)  # row t has its 1 at t - 1
    weights = torch.stack([one_back, torch.eye(length)])[None]
    assert previous_token_score(weights).tolist() == [1, 0]


def test_prefix_matching_counts_what_followed_every_earlier_occurrence():
    tokens = torch.tensor([[5, 6, 5, 7, 5]])
    weights = torch.zeros(1, 1, 5, 5)
    weights[0, 0, 2, 1] = 0.6  # the 5 at 2 was at 0, followed by 1
    weights[0, 0, 4, 1], weights[0, 0, 4, 3], weights[0, 0, 4, 2] = 0.3, 0.4, 0.3  # 5 at 4: by 1 and by 3
    assert prefix_matching_score(weights, tokens).item() == pytest.approx((0.6 + 0.7) / 2)
    assert prefix_matching_score(weights, tokens, torch.tensor([[4]])).item() == pytest.approx(0.7)
    with pytest.raises(SpecError, match="no token occurs twice"):
        prefix_matching_score(weights, torch.arange(5)[None])


def by_hand(conv: str, sharp: float) -> Model:
    """One layer of attention whose queries are tokens and whose keys are tokens, or with `conv` the tokens before them."""
    options = {"kind": "attention", "conv": conv, "kernel": 2}
    spec = ModelSpec(mixer=options, width=VOCABULARY, layers=1, positions="none", mlp="none")
    model = build(spec, VOCABULARY, 64, seed=0)
    mixer = model.layers[0].mixer
    with torch.no_grad():
        model.embedding.weight.copy_(torch.eye(VOCABULARY))
        mixer.qkv.weight[:VOCABULARY] = sharp * torch.eye(VOCABULARY)
        mixer.qkv.weight[VOCABULARY : 2 * VOCABULARY] = torch.eye(VOCABULARY)
        for conv in mixer.convs.values():
            conv.weight.copy_(torch.tensor([1.0, 0.0]))  # the token before
    return model


def test_models_made_by_hand():
    tokens = torch.cat([torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(i))[None] for i in range(4)])
    tokens = torch.cat([tokens, tokens], dim=1)
    (inducing,) = induction_scores(by_hand("k", 100.0), tokens).to_dict("records")
    assert (inducing["mixer"], inducing["head"]) == ("layers.0.mixer", 0)
    assert inducing["prefix_matching"] > 0.99
    (same,) = induction_scores(by_hand("none", 100.0), tokens).to_dict("records")
    assert same["prefix_matching"] < 0.01, "it looks at the token itself"
    (even,) = induction_scores(by_hand("none", 0.0), tokens).to_dict("records")
    assert even["previous_token"] == pytest.approx(sum(1 / (t + 1) for t in range(1, 24)) / 23)
    assert even["prefix_matching"] == pytest.approx(sum(1 / (t + 1) for t in range(12, 24)) / 12)


def test_a_model_without_attention_has_no_scores():
    model = build(ModelSpec(mixer="mamba", width=8, layers=1), VOCABULARY, 16, seed=0)
    with pytest.raises(SpecError, match="attention heads"):
        induction_scores(model, torch.zeros(1, 16, dtype=torch.int64))


def test_repeated_tokens_repeat():
    rows = repeated_tokens(50, half=10, rows=3, seed=1)
    assert rows.shape == (3, 20)
    assert torch.equal(rows[:, :10], rows[:, 10:])
    assert rows.min() >= 1
    assert rows.max() < 50
    assert not torch.equal(rows, repeated_tokens(50, half=10, rows=3, seed=2))
