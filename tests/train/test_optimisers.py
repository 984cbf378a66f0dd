"""Optimisers and schedules of one's own train in cohorts, stop and go on as AdamW does."""

import pytest
import safetensors.torch
import torch
from pydantic import Field

from recollect.models.model import build
from recollect.train.cohort import Cohort
from recollect.train.events import Ended, Saved
from recollect.train.loop import train
from recollect.train.optimisers.adamw import AdamW
from recollect.train.optimisers.base import Optimiser
from recollect.train.schedules import Schedule
from recollect.train.spec import RunSpec
from recollect.train.speed.compile import places

CPU = torch.device("cpu")


class Momentum(Optimiser):
    """Gradient descent with momentum."""

    momentum: float = Field(default=0.9, ge=0, lt=1)
    """How much of the last step is taken again."""
    nesterov: bool = False
    """Whether the step looks ahead."""

    def start(self, params):
        return {"velocity": {name: torch.zeros_like(p) for name, p in params.items()}}

    def step(self, params, grads, state, groups, number):
        for group in groups:
            for name in group.names:
                p, v = params[name], state["velocity"][name]
                lr, momentum = group.like(p, "lr", "momentum")
                v.mul_(momentum).add_(grads[name])
                p.sub_(lr * (grads[name] + momentum * v if self.nesterov else v))


class Averaged(Momentum):
    """Gradient descent that is judged by the average of where it has been."""

    def start(self, params):
        average = {name: p.clone() for name, p in params.items()}
        return super().start(params) | {
            "average": average,
            "seen": {"steps": torch.zeros(len(next(iter(params.values()))))},
        }

    def step(self, params, grads, state, groups, number):
        super().step(params, grads, state, groups, number)
        state["seen"]["steps"] += 1
        for name, p in params.items():
            state["average"][name].lerp_(p, 1 / (number + 1))

    def evaluated(self, params, state, groups):
        return state["average"]


class Taken(Momentum):
    """Its state has a name that a checkpoint needs itself."""

    def start(self, params):
        return {"params": params}


class Wave(Schedule):
    """Between the peak rate and a part of it, in turns."""

    depth: float = Field(default=0.5, ge=0, lt=1)
    """How far down."""

    def after_warmup(self, step, warmup, steps):
        return 1 - self.depth * ((step - warmup) % 2)


MINE = {"optimiser": f"{__name__}:Momentum", "schedule": f"{__name__}:Wave", "depth": 0.25}


def run(lr=0.3, seed=1, **train) -> RunSpec:
    how = {"steps": 30, "batch": 8, "eval_every": 10, "eval_rows": 16, "test_rows": 32, **MINE, **train}
    task = {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32}
    return RunSpec(task=task, model={"width": 16, "layers": 1}, train={"lr": lr, "seed": seed, **how})


def results(events) -> dict[str, Ended]:
    return {event.run.id: event for event in events if isinstance(event, Ended)}


def facts(ended: Ended) -> tuple:
    return ended.curve, ended.final, ended.slices, ended.status, ended.step, ended.weights


def eight(**train) -> list[RunSpec]:
    """Runs of one cohort that differ in rate, momentum, clipping and seed."""
    return [
        run(lr, seed, momentum=momentum, clip=clip, **train)
        for lr in (0.03, 0.3)
        for momentum, clip in ((0.0, 0.0), (0.9, 0.5))
        for seed in (1, 2)
    ]


def test_an_optimiser_of_ones_own_agrees_with_pytorchs_to_the_last_digits():
    specs = [run(0.1, 3, momentum=0.8, clip=0.5, steps=50, precision="float64", nesterov=True),
             run(0.2, 4, momentum=0.0, steps=50, precision="float64", nesterov=True)]  # fmt: skip
    cohort = Cohort(specs, CPU)
    spec, model = specs[0].train, build(specs[0].model, 32, 16, seed=3).double()
    theirs = torch.optim.SGD(model.parameters(), lr=spec.lr, momentum=0.8, nesterov=True)
    for step in range(50):
        inputs = cohort.inputs(step)
        tokens, positions, answers = (x[0] for x in inputs.rows[:3])
        ((members, found),) = cohort.gradients(inputs)
        cohort.move(members, found, inputs)
        losses, _ = model(tokens, positions, answers)
        theirs.zero_grad()
        losses.mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        theirs.param_groups[0]["lr"] = 0.1 * spec.rate_factor(step)
        theirs.step()
        assert abs(found.losses[0] - losses.mean()) < 1e-9
    for name, p in model.named_parameters():
        torch.testing.assert_close(cohort.members.params[name][0], p.detach(), rtol=0, atol=1e-9)
    assert spec.rate_factor(7) == 1 - 0.25 * 0, "after five steps of warm-up, every second step is at the peak"
    assert spec.rate_factor(8) == 1 - 0.25 * 1


def test_alone_and_among_eight_a_run_is_the_same_to_the_bit():
    many = eight()
    assert len({spec.shape for spec in many}) == 1, "momentum may differ inside a cohort"
    together = results(train(many, weights=True))
    for chosen in (many[2:3], many[5:6], many[1:4]):
        for id, ended in results(train(chosen, weights=True)).items():
            assert facts(ended) == facts(together[id])
    assert len({str(ended.final) for ended in together.values()}) == 8, "and each is a run of its own"


def test_stopped_and_resumed_a_run_is_the_same_to_the_bit():
    for name in ("Momentum", "Averaged"):
        many = eight(optimiser=f"{__name__}:{name}")
        whole = results(train(many, weights=True))
        saved = {event.step: event.data for event in train(many, every=0) if isinstance(event, Saved)}
        for step, some in ((1, many), (17, many[3:4]), (20, many[::3])):
            again = results(train(some, saved=saved[step], weights=True))
            assert {id: facts(ended) for id, ended in again.items()} == {s.id: facts(whole[s.id]) for s in some}
    names = set(safetensors.torch.load(saved[1]))
    assert {"velocity.embedding.weight", "average.embedding.weight", "seen.steps", "params.embedding.weight"} <= names


def test_what_is_measured_and_kept_is_the_point_that_the_optimiser_names():
    specs = [
        run(optimiser=f"{__name__}:Averaged", snapshots=2),
        run(0.1, optimiser=f"{__name__}:Averaged", snapshots=2),
    ]
    cohort = Cohort(specs, CPU)
    for step in range(30):
        cohort.advance(step)
    (ended, _) = results(train(specs, weights=True)).values()
    weights = safetensors.torch.load(ended.weights)
    for name, average in cohort.members.evaluated().items():
        assert torch.equal(weights[name], average[0])
    assert not torch.equal(weights["embedding.weight"], cohort.members.params["embedding.weight"][0])
    assert torch.equal(safetensors.torch.load(ended.snapshots[-1][2])["input"], weights["embedding.weight"])
    plain = results(train([run(snapshots=2)])).popitem()[1]
    assert plain.curve[0]["train_loss"] == ended.curve[0]["train_loss"], "gradients are taken where they were"
    assert plain.curve[0]["test_loss"] != ended.curve[0]["test_loss"]


def test_members_that_leave_take_their_state_with_them():
    many = eight(steps=40)
    kept = Cohort(many, CPU)
    for step in range(10):
        kept.advance(step)
    before = {name: tensor.clone() for name, tensor in kept.members.tensors().items()}
    kept.compiled = kept._loss  # as if it were compiled: then it keeps its places
    kept.keep([5, 2, 7])
    assert (len(kept), kept.members.places) == (3, places(3, 8)) == (3, 4)
    for name, tensor in kept.members.tensors().items():
        assert torch.equal(tensor, before[name][[5, 2, 7, 5]])
    kept.compiled = None
    kept.keep([1])
    assert (len(kept), kept.members.places) == (1, 2), "a lone run brings a copy of itself"
    assert torch.equal(kept.members.columns["momentum"], torch.tensor([0.9, 0.9], dtype=torch.float64))


def test_the_bytes_of_the_state_are_counted_without_making_it():
    params = {"w": torch.empty(3, 5), "b": torch.empty(5, device="meta"), "d": torch.empty(7, dtype=torch.float64)}
    assert AdamW().state_bytes(params) == 2 * (20 * 4 + 7 * 8)
    assert Momentum().state_bytes(params) == 20 * 4 + 7 * 8
    assert Averaged().state_bytes(params) == 2 * (20 * 4 + 7 * 8) + 4


def test_a_state_cannot_have_a_name_that_a_checkpoint_needs():
    with pytest.raises(ValueError, match="Taken: no part of its state can be called 'params'"):
        Cohort([run(optimiser=f"{__name__}:Taken")], CPU)
