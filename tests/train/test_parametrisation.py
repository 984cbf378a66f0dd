"""muP: what training changes is as large in a wide model as in a narrow one; and the other choices of how a model starts."""

import math

import pytest
import torch
from torch.func import functional_call

from recollect.models.model import build
from recollect.models.spec import ModelSpec
from recollect.spec import SpecError
from recollect.train.cohort import Cohort
from recollect.train.parametrisation import rate_factors
from recollect.train.spec import RunSpec

CPU = torch.device("cpu")
RATES = {"adamw": 3e-3, "muon": 3e-3, "lion": 1e-3, "sgd": 0.1}


def run(width=32, optimiser="adamw", mixer="attention", tie=True, train=None, **model) -> RunSpec:
    how = {"lr": RATES[optimiser], "seed": 1, "steps": 100, "warmup": 0, "batch": 8, "optimiser": optimiser}
    task = {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32}
    shape = {"mixer": mixer, "width": width, "layers": 2, "tie": tie, "base_width": 32, **model}
    return RunSpec.model_validate({"task": task, "model": shape, "train": how | (train or {})})


def change(spec: RunSpec) -> float:
    """How far the logits are from where they were, after four steps."""
    cohort, batch = Cohort([spec], CPU), spec.task.batch(0, "test", 32)

    def logits():
        params = {name: p[0] for name, p in cohort.members.params.items()}
        return functional_call(cohort.model, params, (batch.tokens, batch.positions)).detach()

    before = logits()
    for step in range(4):
        cohort.advance(step)
    return (logits() - before).std().item()


@pytest.mark.parametrize(("optimiser", "mixer", "tie"), [
    ("adamw", "attention", True), ("adamw", "mamba", False), ("muon", "mamba", True), ("sgd", "attention", False),
])  # fmt: skip
def test_four_steps_change_a_wide_model_as_much_as_a_narrow_one(optimiser, mixer, tie):
    base = change(run(32, optimiser, mixer, tie))
    assert 0.6 < change(run(128, optimiser, mixer, tie, parametrisation="mup")) / base < 1.3
    assert change(run(128, optimiser, mixer, tie)) / base > 2, "by the standard parametrisation it grows with the width"


@pytest.mark.parametrize("optimiser", ["adamw", "muon", "lion"])
def test_steps_of_hidden_matrices_are_as_large_in_a_wide_model_as_in_a_narrow_one(optimiser):
    names = [f"layers.0.{part}.weight" for part in ("mixer.qkv", "mixer.out", "mlp.into", "mlp.out")]

    def steps(width):
        cohort = Cohort([run(width, optimiser, parametrisation="mup")], CPU)
        before = {name: cohort.members.params[name][0].clone() for name in names}
        for step in range(4):
            cohort.advance(step)
        moved = [cohort.members.params[name][0] - before[name] for name in names]
        return torch.stack([torch.linalg.matrix_norm(m, 2) * math.sqrt(m.shape[1] / m.shape[0]) for m in moved])

    assert steps(128) / steps(32) == pytest.approx(1, abs=0.25), "by their spectral norm, over sqrt(outputs / inputs)"


def test_at_the_base_width_mup_is_the_standard_parametrisation():
    ours, theirs = (Cohort([run(parametrisation=name)], CPU) for name in ("mup", "standard"))
    for step in range(3):
        ours.advance(step)
        theirs.advance(step)
    assert all(torch.equal(p, theirs.members.params[name]) for name, p in ours.members.params.items())


def test_rates_and_initial_values_follow_the_width():
    wide, narrow = run(128, parametrisation="mup"), run(32, parametrisation="mup")
    factors = rate_factors(wide)
    assert rate_factors(narrow) == {} == rate_factors(run(128))
    assert set(factors) == {
        *(f"layers.{i}.{part}.weight" for i in (0, 1) for part in ("mixer.qkv", "mixer.out", "mlp.into", "mlp.out")),
        "norm.weight", "norm.bias",
    }  # fmt: skip
    assert set(factors.values()) == {0.25}
    untied = rate_factors(run(128, tie=False, parametrisation="mup"))
    assert untied["head.weight"] == 0.25
    assert "norm.weight" not in untied
    by_gradient = rate_factors(run(128, "sgd", parametrisation="mup"))
    assert by_gradient["embedding.weight"] == by_gradient["layers.0.mixer.qkv.bias"] == 4
    assert "layers.0.mixer.qkv.weight" not in by_gradient
    model = build(wide.model, 32, 16, seed=1)
    assert model.layers[0].mixer.qkv.weight.std().item() == pytest.approx(0.02 / 2, rel=0.05)
    assert model.embedding.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert model.norm.weight.unique().tolist() == [0.25]
    head = build(run(128, tie=False, parametrisation="mup").model, 32, 16, seed=1).head
    assert head is not None
    assert head.weight.std().item() == pytest.approx(0.02 / 4, rel=0.05)


def test_groups_and_mup_multiply():
    spec = run(128, parametrisation="mup", train={"groups": {"layers.0.*": {"lr": 0.5}}, "lr": 1.0})
    rates = {
        name: group.numbers["lr"][0].item() for group in Cohort([spec], CPU).members.groups() for name in group.names
    }
    assert rates["layers.0.mlp.out.weight"] == 0.125
    assert rates["layers.0.mlp.out.bias"] == 0.5
    assert rates["layers.1.mlp.out.weight"] == 0.25
    assert rates["embedding.weight"] == 1


def test_the_spread_of_initial_values_is_a_field():
    narrow, wide = (build(ModelSpec(spread=spread), 64, 16, seed=1) for spread in (0.006, 0.02))
    assert (narrow.embedding.weight / wide.embedding.weight).mean().item() == pytest.approx(0.3)
    assert ModelSpec(spread=0.02).canonical() == ModelSpec().canonical()


def test_mimetic_attention_starts_as_its_authors_say():
    spec = ModelSpec(mixer={"kind": "attention", "init": "mimetic", "heads": 2}, width=64)
    mixer = build(spec, 64, 16, seed=1).layers[0].mixer
    q, k, v = mixer.qkv.weight.detach().chunk(3)
    for head in range(2):
        product = q[head * 32 : head * 32 + 32].T @ k[head * 32 : head * 32 + 32]
        assert product.diagonal().mean() > 0.4, "near 0.7 (I + noise), but of half the rank"
    product = mixer.out.weight.detach() @ v
    assert product.diagonal().mean().item() == pytest.approx(-0.4, abs=0.05)
    noise = product + 0.4 * torch.eye(64)
    assert noise.std().item() == pytest.approx(0.4 / math.sqrt(64), rel=0.1)


def test_pytorchs_law_of_attention_is_that_of_its_linear_maps():
    mixer = build(ModelSpec(mixer={"kind": "attention", "init": "pytorch"}), 64, 16, seed=1).layers[0].mixer
    assert mixer.qkv.weight.abs().max().item() == pytest.approx(1 / 8, rel=0.01)


def test_a_base_width_that_the_mixer_cannot_have_is_refused():
    with pytest.raises(SpecError, match="heads: 4 does not divide width 6"):
        build(ModelSpec(mixer={"kind": "attention", "heads": 4}, parametrisation="mup", base_width=6), 64, 16, seed=1)


def test_z_loss_is_added_for_each_member_by_its_own_weight():
    plain, *weighted = (run(train={"z_loss": z, "precision": "float64"}) for z in (0.0, 0.01, 0.1))
    assert plain.shape != weighted[0].shape == weighted[1].shape
    base, cohort = Cohort([plain], CPU), Cohort(weighted, CPU)
    losses = [next(c.gradients(c.inputs(0)))[1].losses for c in (base, cohort)]
    extra = losses[1] - losses[0][0]
    assert extra[1].item() == pytest.approx(10 * extra[0].item())
    assert extra[0].item() == pytest.approx(0.01 * math.log(32) ** 2, rel=0.05), (
        "before training all words are as likely"
    )
    for step in range(20):
        base.advance(step)
        cohort.advance(step)
    tokens, positions = (x[0] for x in base.inputs(0).rows[:2])
    size = [
        functional_call(c.model, {name: p[-1] for name, p in c.members.params.items()}, (tokens, positions))
        .logsumexp(-1).square().mean() for c in (base, cohort)
    ]  # fmt: skip
    assert size[1] < size[0], "it keeps the denominator near 1"
