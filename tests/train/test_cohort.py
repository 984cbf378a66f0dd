"""What a user relies on when runs train together: the numbers are those of each run on its own."""

import math
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from recollect.models.model import build
from recollect.train.cohort import Cohort
from recollect.train.data import sample, training_rows
from recollect.train.events import Ended, Measured
from recollect.train.hopeless import hopeless
from recollect.train.loop import train
from recollect.train.spec import RunSpec, TrainSpec
from recollect.train.speed.ahead import Ahead
from recollect.train.speed.compile import Pace, places

CONV = {"kind": "attention", "conv": "k"}


def run(lr=3e-3, seed=1, mixer=CONV, layers=1, width=16, task=None, tests=(), **train):
    task = {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32} | (task or {})
    train = {"steps": 30, "batch": 8, "eval_every": 10, "eval_rows": 16, "test_rows": 32} | train
    model = {"mixer": mixer, "width": width, "layers": layers}
    return RunSpec(task=task, model=model, train={"lr": lr, "seed": seed, **train}, tests=tests)


def results(runs):
    return {event.run.id: event for event in train(runs) if isinstance(event, Ended)}


def same(a: Ended, b: Ended) -> bool:
    return (a.curve, a.final, a.slices, a.status, a.step) == (b.curve, b.final, b.slices, b.status, b.step)


@pytest.fixture(params=["at once", "one after another"])
def in_turn(request, monkeypatch) -> bool:
    """How a cohort trains on a CPU: by default only models that are larger than those of these tests train in turn."""
    monkeypatch.setattr("recollect.train.cohort.SMALL", 2**16 if request.param == "at once" else 0)
    return request.param == "one after another"


def test_small_models_train_at_once_and_large_ones_one_after_another():
    for batch, at_once in ((255, True), (256, False)):  # 16 tokens, width 16
        cohort = Cohort([run(batch=batch)], torch.device("cpu"))
        assert (cohort.vmapped, cohort.members.places) == (at_once, 2 if at_once else 1), "vmap never runs for one"


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("mixer", [CONV, "mamba", "linear_attention"], ids=str)
def test_a_run_alone_and_in_company_is_the_same_to_the_bit(precision, mixer, in_turn):
    options = {
        "mixer": mixer,
        "steps": 30 if in_turn else 200,
        "eval_every": 10 if in_turn else 50,
        "precision": precision,
    }
    many = [run(lr, seed, **options) for lr in (1e-3, 3e-3, 1e-2, 3e-2) for seed in (1, 2)]
    among_eight, alone, among_three = results(many), results(many[2:3]), results(many[1:4])
    assert same(among_eight[many[2].id], alone[many[2].id])
    assert same(among_eight[many[2].id], among_three[many[2].id])
    assert alone[many[2].id].curve[0]["train_loss"] != alone[many[2].id].curve[-1]["train_loss"]


def test_a_diverging_member_changes_nobody_else():
    calm = [run(lr) for lr in (1e-3, 3e-3, 1e-2)]
    wild = run(1e3)
    together = results([*calm, wild])
    assert together[wild.id].status == "diverged"
    assert together[wild.id].step == 10, "it leaves at the next measurement"
    for member in calm:
        assert same(together[member.id], results([member])[member.id])


def ordinary_losses(spec: RunSpec, optimiser_of) -> tuple[list[float], nn.Module]:
    """The losses of a training loop as everybody writes it, and the model it leaves behind."""
    how, losses = spec.train, []
    model = build(spec.model, spec.task.vocabulary, spec.row_length, how.seed).double()
    optimiser, seeds = optimiser_of(model, how), torch.tensor([how.seed])
    for step in range(how.total_steps):
        batch = sample(spec.task, seeds, "train", training_rows(how, seeds, step)).map(lambda x: x[0])
        logits = model(batch.tokens, batch.positions)
        loss = F.cross_entropy(logits.flatten(0, 1), batch.answers.flatten())
        optimiser.zero_grad()
        loss.backward()
        if how.clip:
            nn.utils.clip_grad_norm_(model.parameters(), how.clip)
        for group in optimiser.param_groups:
            group["lr"] = how.lr * how.rate_factor(step)
        optimiser.step()
        losses.append(loss.item())
    return losses, model


def torch_adamw(model: nn.Module, how: TrainSpec) -> torch.optim.Optimizer:
    some = [p for p in model.parameters() if how.decay == "all" or p.dim() >= 2]
    others = [p for p in model.parameters() if how.decay != "all" and p.dim() < 2]
    groups = [{"params": some, "weight_decay": how.weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW([g for g in groups if g["params"]], betas=(how.beta1, how.beta2), eps=how.eps)


@pytest.mark.parametrize("decay", ["all", "matrices"])
@pytest.mark.parametrize("clip", [0.0, 0.5])
@pytest.mark.parametrize("train_rows", [0, 24])
def test_a_member_agrees_with_an_ordinary_training_loop(decay, clip, train_rows, in_turn):
    shared = {"mixer": "attention", "layers": 2, "steps": 50, "precision": "float64", "train_rows": train_rows,
              "decay": decay}  # fmt: skip
    specs = [run(0.01, seed=3, clip=clip, weight_decay=0.3, **shared),
             run(0.02, seed=4, weight_decay=0.05, beta1=0.8, beta2=0.95, eps=1e-6, **shared)]  # fmt: skip
    cohort = Cohort(specs, torch.device("cpu"))
    losses = []
    for step in range(50):
        inputs = cohort.inputs(step)
        found = []
        for members, gradients in cohort.gradients(inputs):
            cohort.move(members, gradients, inputs)
            found.append(gradients.losses)
        assert len(found) == (2 if in_turn else 1)
        losses.append(torch.cat(found))
    for i, spec in enumerate(specs):
        expected, model = ordinary_losses(spec, torch_adamw)
        torch.testing.assert_close(
            torch.stack(losses)[:, i], torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-9
        )
        for name, p in model.named_parameters():
            torch.testing.assert_close(cohort.members.params[name][i], p.detach(), rtol=0, atol=1e-9)


def test_loss_at_answers_equals_cross_entropy_with_ignored_labels_over_all_positions():
    for task in ({"kind": "mqar"}, {"kind": "ngram"}, {"kind": "copy"}, {"kind": "position"}):
        spec = run(task=None) if task["kind"] == "mqar" else RunSpec(task=task, model={"width": 16}, train={"steps": 1})
        model = build(spec.model, spec.task.vocabulary, spec.row_length, seed=0)
        batch = spec.task.batch(0, "train", 5)
        labels = torch.full_like(batch.tokens, -100)
        rows = torch.arange(5)[:, None].expand_as(batch.positions)
        labels[rows[batch.trained], batch.positions[batch.trained]] = batch.answers[batch.trained]
        every = F.cross_entropy(model(batch.tokens).flatten(0, 1), labels.flatten(), ignore_index=-100)
        losses, right = model(batch.tokens, batch.positions, batch.answers)
        ours = (losses * batch.trained).sum() / batch.trained.sum()
        assert abs(every - ours) < 1e-6, task
        assert torch.equal(right, model(batch.tokens, batch.positions).argmax(-1) == batch.answers)


def test_members_leave_when_solved_and_the_rest_go_on():
    easy = {"kind": "mqar", "length": 8, "pairs": 1, "vocab": 16}
    specs = [run(lr, task=easy, steps=300, eval_every=20, stop_at=0.9, eval_rows=64) for lr in (3e-2, 1e-5)]
    found = results(specs)
    assert found[specs[0].id].status == "solved"
    assert found[specs[0].id].step < 300
    assert found[specs[1].id].status == "finished"
    assert found[specs[1].id].step == 300
    assert same(found[specs[1].id], results(specs[1:])[specs[1].id])


def test_every_epoch_of_a_fixed_set_shows_each_row_once():
    spec = run(train_rows=24, batch=7, steps=24).train
    seeds = torch.tensor([5, 6])
    rows = torch.cat([training_rows(spec, seeds, step) for step in range(24)], dim=1)  # 7 epochs of 24
    for epoch in rows.split(24, dim=1):
        assert all(sorted(of_seed.tolist()) == list(range(24)) for of_seed in epoch)
    assert not torch.equal(rows[:, :24], rows[:, 24:48]), "each epoch is shuffled anew"
    assert not torch.equal(rows[0], rows[1]), "each seed has its own order"


def test_slices_count_every_scored_answer_and_agree_with_the_accuracy():
    (result,) = results([run(steps=10)]).values()
    by_key = next(s for s in result.slices if s["tag"] == "key")
    assert sum(by_key["counts"]) == 32 * 2
    assert math.isclose(sum(by_key["right"]) / sum(by_key["counts"]), result.final["accuracy"])


def test_further_tests_are_measured_at_the_end():
    longer = {"kind": "mqar", "length": 32, "pairs": 4, "vocab": 32, "filler": "blank"}
    with pytest.raises(ValueError, match="32 must be even and greater than length 32"):
        run(tests=[longer])
    (result,) = results([run(steps=10, task={"vocab": 64}, tests=[longer | {"vocab": 64}])]).values()
    assert 0 <= result.final["tests.0.accuracy"] <= 1
    assert {"tests.0.gap", "gap"} <= {s["tag"] for s in result.slices}


def test_dropout_masks_do_not_depend_on_company():
    options = {"mixer": {"kind": "attention", "dropout": 0.1}}
    specs = [run(lr, **options) for lr in (1e-3, 1e-2, 3e-2)]
    dropped = results(specs)
    assert same(dropped[specs[1].id], results(specs[1:2])[specs[1].id])
    plain = results([run(1e-2, mixer="attention")])
    assert next(iter(plain.values())).curve != dropped[specs[1].id].curve


class Branching(nn.Module):
    """A mixer that vmap cannot batch: it looks at a value."""

    def __init__(self, width: int):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return self.linear(x) if x.abs().sum() > 0 else x


def test_a_model_that_cannot_be_batched_trains_one_member_after_another_and_says_so():
    specs = [run(lr, mixer=f"{__name__}:Branching") for lr in (1e-3, 1e-2)]
    with pytest.warns(UserWarning, match="one after another"):
        found = results(specs)
    assert all("one after another" in result.notes[0] for result in found.values())
    assert found[specs[0].id].curve != found[specs[1].id].curve


def test_where_a_model_cannot_be_batched_some_members_can_end_before_the_others():
    calm, wild = (
        [run(lr, mixer=f"{__name__}:Branching") for lr in (1e-3, 3e-3)],
        run(1e3, mixer=f"{__name__}:Branching"),
    )
    with pytest.warns(UserWarning, match="one after another"):
        found = results([*calm, wild])
    assert [found[member.id].status for member in (*calm, wild)] == ["finished", "finished", "diverged"]


def test_a_result_has_the_size_of_the_state_where_every_mixer_does():
    for mixer in ("attention", "mamba2"):
        spec = run(mixer=mixer, layers=2, steps=2)
        model = build(spec.model, spec.task.vocabulary, spec.row_length, seed=0)
        (ended,) = results([spec]).values()
        assert ended.state_size == model.state_size(16) > 0
    with pytest.warns(UserWarning, match="one after another"):
        (ended,) = results([run(mixer=f"{__name__}:Branching", steps=2)]).values()
    assert ended.state_size is None


def test_the_parts_of_a_mixture_may_have_different_numbers_of_answers():
    parts = [
        {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 64},
        {"kind": "mqar", "length": 32, "pairs": 4, "vocab": 64},
    ]
    spec = run(steps=4).changed(task={"kind": "mixture", "parts": parts})
    (ended,) = results([spec]).values()
    by_part, by_key = (next(s for s in ended.slices if s["tag"] == tag) for tag in ("part", "key"))
    assert by_part["counts"] == [16 * 2, 16 * 4], "every scored answer of 32 rows"
    assert sum(by_key["counts"]) == 16 * 2 + 16 * 4, "and no padding"
    assert sum(by_key["right"]) == sum(by_part["right"])


def test_the_precision_of_products_is_a_cohorts_own(monkeypatch):
    for precision, expected in (("bfloat16", "high"), ("float32", "highest")):
        cohort = Cohort([run(precision=precision)], torch.device("cpu"))
        monkeypatch.setattr(cohort, "device", torch.device("cuda"))
        torch.set_float32_matmul_precision("medium")
        try:
            with cohort.arithmetic():
                assert torch.get_float32_matmul_precision() == expected
            assert torch.get_float32_matmul_precision() == "medium"
        finally:
            torch.set_float32_matmul_precision("highest")


def test_measurements_come_at_the_cadence_and_schedules_end_at_zero():
    steps = [event.step for event in train([run(steps=25, eval_every=10)]) if isinstance(event, Measured)]
    assert steps == [10, 20, 25]
    spec = run(steps=100, warmup=0.1, schedule="linear").train
    assert spec.rate_factor(0) == pytest.approx(0.1)
    assert spec.rate_factor(9) == spec.rate_factor(10) == 1.0
    assert spec.rate_factor(55) == pytest.approx(0.5)
    assert run(steps=100, warmup=5, schedule="cosine").train.rate_factor(99) < 1e-3


def test_the_gates_of_two_streams_are_recorded():
    second = {"block": {"mixer": "attention", "parallel": True}}
    model = {"mixer": "mamba2", "mlp": "none", "width": 16, "layers": 2, "second": second}
    spec = run(steps=20, eval_every=10)
    spec = spec.changed(model=model)
    (result,) = results([spec]).values()
    assert all(point["gate.0"] > 0 and point["gate.1"] > 0 for point in result.curve), "they leave their start at zero"
    assert result.curve[0]["gate.0"] != result.curve[1]["gate.0"]


def test_a_hopeless_run_ends_early_only_where_asked_and_by_the_stated_rule():
    slow, quick = 1e-7, 1e-2
    asked = [run(lr, steps=60, eval_every=10, stop_hopeless=0.5) for lr in (slow, quick)]
    found = results(asked)
    assert (found[asked[0].id].status, found[asked[0].id].step) == ("hopeless", 30)
    assert (found[asked[1].id].status, found[asked[1].id].step) == ("finished", 60)
    assert next(iter(results([run(slow, steps=60, eval_every=10)]).values())).status == "finished"


def test_a_run_is_ended_by_its_own_curve_only_where_asked():
    slow, quick = 1e-5, 1e-2
    asked = [run(slow, steps=60, eval_every=6, stop_below=0.9), run(slow, steps=60, eval_every=6)]
    ended, whole = (results([one])[one.id] for one in asked)
    assert (ended.status, ended.step) == ("hopeless", 36)
    assert (whole.status, whole.step) == ("finished", 60)
    assert whole.curve[:6] == ended.curve, "up to there nothing differs"
    learning = run(quick, steps=60, eval_every=6, stop_below=0.9)
    curve = [{"step": 6.0 * i, "accuracy": 0.02 * i, "train_loss": 4.0 - 0.3 * i} for i in range(1, 11)]
    assert not hopeless(learning.train, curve[:8]), "what it gains and how its loss falls speak for it"
    assert hopeless(learning.train, [{**point, "accuracy": 0.02, "train_loss": 4.0} for point in curve[:8]])
    assert not hopeless(learning.train, [{**point, "accuracy": 0.02, "train_loss": 4.0} for point in curve[:5]])


@pytest.mark.parametrize(("anew_pays", "places_taken"), [(True, {4, 2}), (False, {4})])
def test_a_compiled_cohort_keeps_its_places_while_members_leave_and_gives_the_same_results(
    tmp_path, monkeypatch, anew_pays, places_taken
):
    easy = {"kind": "mqar", "length": 8, "pairs": 1, "vocab": 16}
    specs = [run(lr, task=easy, steps=120, eval_every=20, stop_at=0.9, eval_rows=64) for lr in (3e-2, 2e-2, 1e-2, 1e-5)]
    plain = results(specs)
    sizes = []

    class Always:
        def __init__(self, device):
            self.asked = 0

        def pays(self, left, compiled):
            self.asked += 1
            return self.asked == 3

    def compiled(function, **options):
        def run_all(*stacked):
            sizes.append(len(stacked[1]))
            return function(*stacked)

        return run_all

    monkeypatch.setattr("recollect.train.speed.compile.Pace", Always)
    monkeypatch.setattr("recollect.train.speed.compile.worth", lambda step, left, cost=0: anew_pays)
    monkeypatch.setattr("recollect.train.speed.ahead.COMMAND", [sys.executable, "-c", "input()"])
    monkeypatch.setattr(Ahead, "ready", lambda ahead: ahead.process is None or ahead.process.wait() == 0)
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path))
    monkeypatch.setattr("recollect.train.cohort.torch.compile", compiled)
    fast = results(specs)
    assert {id: (ended.status, ended.step, ended.final) for id, ended in fast.items()} == {
        id: (ended.status, ended.step, ended.final) for id, ended in plain.items()
    }
    assert {ended.status for ended in plain.values()} == {"solved", "finished"}
    assert set(sizes) == places_taken
    assert sizes[0] == 4


def test_compiling_pays_only_where_enough_is_left(monkeypatch):
    def times(device: str, left: int, compiled: bool = False) -> int:
        clock, pace = iter([0.0, 4.0]), Pace(torch.device(device))
        monkeypatch.setattr(pace, "_now", lambda: next(clock))  # a second per step
        return [pace.pays(left, lambda: compiled) for _ in range(20)].count(True)

    assert times("cpu", 10**9) == 0, "a CPU does not compile"
    assert times("cuda", 1000) == 1
    assert times("cuda", 50) == 0
    assert times("cuda", 50, compiled=True) == 1, "what is in the cache only has to be loaded"
    assert times("cuda", 10, compiled=True) == 0


@pytest.mark.parametrize(
    ("members", "before", "after"), [(4, 4, 4), (3, 4, 4), (2, 4, 2), (1, 4, 2), (17, 36, 18), (2, 5, 3)]
)
def test_places_of_a_compiled_cohort_are_halved_not_counted_down(members, before, after):
    assert places(members, before) == after
