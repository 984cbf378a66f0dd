"""Each optimiser is its reference: 50 steps of a small model in float64, with groups, weight decay and clipping."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from recollect.models.model import build
from recollect.train.cohort import Cohort
from recollect.train.events import Ended, Saved
from recollect.train.loop import train
from recollect.train.optimisers import OPTIMISERS
from recollect.train.spec import RunSpec

SLOW = "layers.*.mixer.*"
"""The parameters of the second group."""
FACTORS = {"lr": 0.3, "weight_decay": 0.5}
STEPS, WARMUP, CLIP, RATE = 50, 5, 0.5, 1e-2


def run(lr=RATE, seed=3, model=None, **how) -> RunSpec:
    task = {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32}
    fixed = {"steps": STEPS, "batch": 8, "eval_every": 25, "eval_rows": 16, "test_rows": 16, "warmup": WARMUP}
    train = {"lr": lr, "seed": seed, "schedule": "constant", **fixed, **how}
    return RunSpec.model_validate({"task": task, "model": {"width": 16, "layers": 1, **(model or {})}, "train": train})


def named_groups(model: nn.Module, decay: float) -> list[dict]:
    slow = [p for name, p in model.named_parameters() if ".mixer." in name]
    fast = [p for name, p in model.named_parameters() if ".mixer." not in name]
    return [{"params": fast, "lr": RATE, "weight_decay": decay},
            {"params": slow, "lr": RATE * FACTORS["lr"], "weight_decay": decay * FACTORS["weight_decay"]}]  # fmt: skip


def far(name: str, reference: Callable[[nn.Module], object], warms_up: bool = False, **how) -> float:
    """How far our parameters, and those that we measure, are from the reference's after 50 steps."""
    spec = run(optimiser=name, clip=CLIP, precision="float64", groups={SLOW: FACTORS}, **how)
    cohort = Cohort(
        [spec, run(2e-2, 4, optimiser=name, precision="float64", groups={SLOW: {"lr": 1.0}}, **how)],
        torch.device("cpu"),
    )
    model = build(spec.model, 32, 16, seed=3).double()
    theirs = reference(model)
    rates = [group["lr"] for group in theirs.param_groups]
    for step in range(STEPS):
        inputs = cohort.inputs(step)
        tokens, positions, answers = (x[0] for x in inputs.rows[:3])
        ((members, found),) = cohort.gradients(inputs)
        cohort.move(members, found, inputs)
        losses, _ = model(tokens, positions, answers)
        model.zero_grad()
        losses.mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        if not warms_up:
            for group, rate in zip(theirs.param_groups, rates, strict=True):
                group["lr"] = rate * min(1, (step + 1) / WARMUP)
        theirs.step()
    trained = _distance(cohort.members.params, model)
    if hasattr(theirs, "eval"):
        theirs.eval()
    return max(trained, _distance(cohort.members.evaluated(), model)) if hasattr(theirs, "eval") else trained


def _distance(ours: dict[str, Tensor], model: nn.Module) -> float:
    return max((ours[name][0] - p.detach()).abs().max().item() for name, p in model.named_parameters())


def test_adamw_is_pytorchs():
    assert far("adamw", lambda m: torch.optim.AdamW(named_groups(m, 0.2)), weight_decay=0.2) < 1e-9


@pytest.mark.parametrize("nesterov", [False, True])
def test_sgd_is_pytorchs(nesterov):
    def theirs(model):
        return torch.optim.SGD(named_groups(model, 0.1), momentum=0.8, nesterov=nesterov)

    assert far("sgd", theirs, weight_decay=0.1, momentum=0.8, nesterov=nesterov) < 1e-9


def test_lion_is_that_of_pytorch_optimizer():
    from pytorch_optimizer import Lion

    def theirs(model):
        return Lion(named_groups(model, 0.2), betas=(0.85, 0.95), weight_decouple=True)

    # A bias of the keys changes nothing, so that its gradient is rounding alone, and Lion would take that one's sign.
    unbiased = {"mixer": {"kind": "attention", "bias": False}}
    assert far("lion", theirs, model=unbiased, weight_decay=0.2, beta1=0.85, beta2=0.95) < 1e-9


def test_schedule_free_is_its_authors():
    from schedulefree import AdamWScheduleFree

    def theirs(model):
        made = AdamWScheduleFree(named_groups(model, 0.2), betas=(0.8, 0.99), warmup_steps=WARMUP)
        made.train()
        return made

    assert far("schedule_free", theirs, warms_up=True, weight_decay=0.2, beta1=0.8, beta2=0.99) < 1e-9


class ByDefinition(torch.optim.Optimizer):
    """Muon written down once more, one matrix at a time: the polynomial is applied to the singular values themselves."""

    def __init__(self, groups: list[dict], matrices: set[Tensor]):
        super().__init__(groups, {})
        self.matrices = matrices
        rest = [{**g, "params": [p for p in g["params"] if p not in matrices]} for g in groups]
        self.rest = torch.optim.AdamW(rest)

    @torch.no_grad()
    def step(self):
        for ours, group in zip(self.rest.param_groups, self.param_groups, strict=True):
            ours["lr"] = group["lr"]
            for p in (p for p in group["params"] if p in self.matrices):
                kept = self.state[p].setdefault("kept", torch.zeros_like(p))
                kept.copy_(0.9 * kept + 0.1 * p.grad)
                u, s, vh = torch.linalg.svd(0.1 * p.grad + 0.9 * kept, full_matrices=False)
                s = s / s.norm()
                for _ in range(5):
                    s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(group["lr"] * 0.2 * math.sqrt(max(p.shape)) * (u * s) @ vh)
        self.rest.step()


class PyTorchs(ByDefinition):
    """The same with torch.optim.Muon, which iterates in bf16."""

    def __init__(self, groups: list[dict], matrices: set[Tensor]):
        super().__init__(groups, matrices)
        own = [{**g, "params": [p for p in g["params"] if p in matrices]} for g in groups]
        self.muon = torch.optim.Muon(own, momentum=0.9, adjust_lr_fn="match_rms_adamw")

    @torch.no_grad()
    def step(self):
        for part in (self.muon, self.rest):
            for theirs, group in zip(part.param_groups, self.param_groups, strict=True):
                theirs["lr"] = group["lr"]
            part.step()


@pytest.mark.parametrize(("reference", "tolerance"), [(ByDefinition, 1e-9), (PyTorchs, 2e-2)])
def test_muon_is_its_definition_and_near_pytorchs_in_bf16(reference, tolerance):
    if reference is PyTorchs and not hasattr(torch.optim, "Muon"):
        pytest.skip("this version of PyTorch has no Muon")

    def theirs(model):
        matrices = {p for name, p in model.named_parameters() if name.startswith("layers") and p.dim() == 2}
        assert len(matrices) == 4
        return reference(named_groups(model, 0.2), matrices)

    assert far("muon", theirs, weight_decay=0.2, momentum=0.9) < tolerance


def results(events) -> dict[str, tuple]:
    return {e.run.id: (e.curve, e.final, e.status, e.step, e.weights) for e in events if isinstance(e, Ended)}


@pytest.mark.parametrize("name", list(OPTIMISERS))
def test_a_run_is_the_same_to_the_bit_among_others_and_after_a_stop(name):
    many = [
        run(
            lr,
            seed,
            optimiser=name,
            clip=clip,
            weight_decay=decay,
            groups={SLOW: {"lr": factor}},
            steps=6,
            eval_every=3,
        )
        for lr, factor in ((1e-3, 1.0), (1e-2, 0.1))
        for seed in (1, 2)
        for clip, decay in ((0.0, 0.0), (1.0, 0.1))
    ]
    assert len({spec.shape for spec in many}) == 1, (
        "rates, clipping, decay and factors of groups may differ in a cohort"
    )
    saved, ended = {}, []
    for event in train(many, every=0, weights=True):
        if isinstance(event, Saved):
            saved[event.step] = event.data
        else:
            ended.append(event)
    together = results(ended)
    assert len(set(map(str, together.values()))) == 8
    assert results(train(many[5:6], weights=True)).items() <= together.items()
    assert results(train(many[::3], saved=saved[4], weights=True)).items() <= together.items()
