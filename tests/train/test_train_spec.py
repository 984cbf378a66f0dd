"""How training is specified: an optimiser and a schedule by name, their fields beside the others."""

import json

import pytest
from pydantic import Field

from recollect.spec import SpecError
from recollect.train.optimisers import OPTIMISERS
from recollect.train.optimisers.adamw import AdamW
from recollect.train.optimisers.base import Optimiser
from recollect.train.schedules import SCHEDULES, Linear, Schedule
from recollect.train.spec import RunSpec, TrainSpec


class Lion(Optimiser):
    """Has some of AdamW's fields, one with another default, and one of its own."""

    weight_decay: float = Field(default=0.0, ge=0)
    """Weight decay."""
    beta2: float = Field(default=0.99, ge=0, lt=1)
    """Decay of the mean."""
    cautious: bool = False
    """Whether it hesitates."""

    def start(self, params):
        return {}

    def step(self, params, grads, state, groups, number):
        pass


class Bare(Lion):
    """Says itself what may differ."""

    @classmethod
    def per_member(cls):
        return ("weight_decay",)


class Stairs(Schedule):
    """Has a field of its own."""

    stairs: int = Field(default=3, ge=1)
    """How many."""

    def after_warmup(self, step, warmup, steps):
        return 1.0


class Unfinished(Optimiser):
    """Has no step."""

    def start(self, params):
        return {}


class Greedy(Lion):
    """Has a field that training has."""

    lr: float = 1.0
    """A rate of its own."""


class Stepped(Stairs):
    """Has a field that the optimiser has."""

    cautious: bool = True
    """Whether it hesitates."""


class Foreign(Optimiser):
    """Takes a field of AdamW's for something else."""

    decay: str = "none"
    """A word."""

    def start(self, params):
        return {}

    def step(self, params, grads, state, groups, number):
        pass


LION, STAIRS = f"{__name__}:Lion", f"{__name__}:Stairs"
MINE = {"steps": 9, "optimiser": LION, "schedule": STAIRS}


def same(a: TrainSpec, b: TrainSpec) -> bool:
    return a == b and a.canonical() == b.canonical() and a.model_dump_json() == b.model_dump_json()


def test_adamw_and_cosine_are_what_nothing_says():
    spec = TrainSpec(steps=9)
    assert spec.built_optimiser == AdamW()
    assert (spec.weight_decay, spec.decay, spec.beta1, spec.beta2, spec.eps) == (0.1, "all", 0.9, 0.999, 1e-8)
    assert spec.canonical() == {"steps": 9}
    assert spec.model_dump().keys() == TrainSpec.model_fields.keys(), "nothing else is written"
    assert same(spec, TrainSpec(steps=9, optimiser="adamw", schedule="cosine", beta2=0.999))
    assert set(spec.per_member) == {
        "lr", "seed", "weight_decay", "beta1", "beta2", "eps", "clip", "z_loss", "stop_at", "stop_hopeless", "stop_below",
        "max_loss"
    }  # fmt: skip


def test_an_object_or_a_class_stands_for_its_name_and_fields():
    assert same(TrainSpec(steps=9, optimiser=AdamW(beta2=0.95)), TrainSpec(steps=9, beta2=0.95))
    assert same(TrainSpec(steps=9, optimiser=AdamW, schedule=Linear), TrainSpec(steps=9, schedule="linear"))
    mine = TrainSpec(steps=9, optimiser=Lion(cautious=True), schedule=Stairs(stairs=5))
    assert same(mine, TrainSpec(**MINE, cautious=True, stairs=5))
    assert (mine.optimiser, mine.schedule) == (LION, STAIRS)


def test_an_optimiser_shows_its_own_defaults_and_nothing_it_does_not_have():
    spec = TrainSpec(**MINE)
    assert (spec.beta2, spec.weight_decay) == (0.99, 0.0)
    dump = spec.model_dump()
    assert {name: dump[name] for name in ("beta2", "weight_decay", "cautious", "stairs")} == {
        "beta2": 0.99, "weight_decay": 0.0, "cautious": False, "stairs": 3
    }  # fmt: skip
    assert not {"beta1", "eps", "decay"} & dump.keys()
    assert " eps=" not in repr(spec)
    assert "stairs=3" in repr(spec)
    assert spec.canonical().keys() == {"steps", "optimiser", "schedule", "optimiser_source", "schedule_source"}
    other = TrainSpec(**MINE, beta2=0.999)
    assert other.canonical()["beta2"] == 0.999, "not its default, though AdamW's"
    assert other.built_optimiser == Lion(beta2=0.999)


@pytest.mark.parametrize(
    "spec", [TrainSpec(steps=9, beta2=0.95), TrainSpec(**MINE, beta2=0.999), TrainSpec(**MINE, cautious=True, stairs=4)]
)
def test_a_specification_survives_json_whole_and_short(spec):
    assert same(TrainSpec.model_validate_json(spec.model_dump_json()), spec)
    assert same(TrainSpec.model_validate(json.loads(json.dumps(spec.canonical()))), spec)
    assert same(spec.changed(), spec)


def test_another_optimiser_is_given_what_the_old_one_was_given():
    given = TrainSpec(steps=9, weight_decay=0.3)
    assert same(given.changed(optimiser=LION), TrainSpec(steps=9, optimiser=LION, weight_decay=0.3))
    assert given.changed(optimiser=Lion(cautious=True)).weight_decay == 0.0
    assert same(TrainSpec(**MINE, cautious=True).changed(lr=0.5), TrainSpec(**MINE, cautious=True, lr=0.5))
    with pytest.raises(SpecError, match="has no field 'beta1'"):
        TrainSpec(steps=9, beta1=0.5).changed(optimiser=LION)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"optimiser": LION, "eps": 1e-3}, r"optimiser '.*:Lion' has no field 'eps': choose from: beta2, cautious, weight_dec"),
        ({"optimiser": LION, "beta1": 0.3}, r"optimiser '.*:Lion' has no field 'beta1': did you mean 'beta2'\? choose from"),
        ({"optimiser": "adamv"}, "unknown optimiser 'adamv': did you mean 'adamw'"),
        ({"schedule": "cosin"}, "unknown schedule 'cosin': did you mean 'cosine'"),
        ({"momentum": 0.9}, r"unknown key 'momentum': .*\(with optimiser 'adamw' and schedule 'cosine'\)"),
        ({"optimiser": LION, "cautios": True}, "unknown key 'cautios': did you mean 'cautious'"),
        ({"stairs": 3}, "unknown key 'stairs'"),
        ({"optimiser": f"{__name__}:Unfinished"}, "optimiser '.*:Unfinished' must define step"),
        ({"optimiser": f"{__name__}:Greedy"}, "Greedy' has a field 'lr', which train has too"),
        ({"optimiser": LION, "schedule": f"{__name__}:Stepped"}, "Stepped' has a field 'cautious', which optimiser has too"),
        ({"optimiser": f"{__name__}:Stairs"}, "not a class derived from recollect.train.optimisers.base.Optimiser"),
        ({"schedule": LION}, "not a class derived from recollect.train.schedules.Schedule"),
        ({"optimiser": 3}, "optimiser: expected a name, a class or an object of one, not 3"),
        ({"optimiser": AdamW(), "beta1": 0.5}, "beta1: given in the optimiser and beside it"),
        ({"weight_decay": -1}, "^weight_decay: input should be greater than or equal to 0"),
        ({"beta2": 1}, "^beta2: input should be less than 1"),
        ({"optimiser": LION, "cautious": "perhaps"}, "^cautious: input should be a valid boolean"),
        ({"weight_decay": -1, "batch": 0}, "^weight_decay: .*; batch: "),
        ({"optimiser": f"{__name__}:Foreign"}, "^decay: input should be 'all' or 'matrices'"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_what_can(fields, message):
    with pytest.raises(SpecError, match=message):
        TrainSpec(steps=9, **fields)


def run(**train) -> RunSpec:
    return RunSpec(task="mqar", model={}, train={"steps": 9, **train})


def test_members_of_a_cohort_may_differ_in_what_their_optimiser_says():
    mine = run(optimiser=LION)
    assert mine.shape == run(optimiser=LION, beta2=0.5, weight_decay=0.2, lr=0.1).shape
    assert mine.shape != run(optimiser=LION, cautious=True).shape
    bare = f"{__name__}:Bare"
    assert run(optimiser=bare).shape == run(optimiser=bare, weight_decay=0.2).shape
    assert run(optimiser=bare).shape != run(optimiser=bare, beta2=0.2).shape
    assert mine.shape != run().shape


SOURCE = """
from recollect.train.optimisers.adamw import AdamW
from recollect.train.schedules import Constant

class Mine(AdamW):
    extra: float = 0.5

class Slow(Constant):
    pass
"""


def test_edited_code_of_ones_own_is_another_run(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(SOURCE)
    names = {"optimiser": f"{file}:Mine", "schedule": f"{file}:Slow"}
    before = {role: run(**{role: name}) for role, name in names.items()}
    assert all(run(**{role: name}).id == before[role].id for role, name in names.items())
    assert run(optimiser=names["optimiser"], extra=0.7).id != before["optimiser"].id
    again = RunSpec.model_validate_json(before["optimiser"].model_dump_json())
    assert again.id == before["optimiser"].id
    assert again.train.built_optimiser == OPTIMISERS.find(names["optimiser"])(extra=0.5)
    file.write_text(SOURCE + "# edited\n")
    assert all(run(**{role: name}).id != before[role].id for role, name in names.items())
    reread = RunSpec.model_validate_json(before["optimiser"].model_dump_json())
    assert reread.id != before["optimiser"].id, "what was written of the old code is not believed"


def test_every_name_is_an_optimiser_or_a_schedule_that_can_be_built():
    for name in OPTIMISERS:
        assert isinstance(TrainSpec(steps=9, optimiser=name).built_optimiser, Optimiser)
    for name in SCHEDULES:
        spec = TrainSpec(steps=100, schedule=name)
        assert [spec.rate_factor(step) for step in range(10)] == [(step + 1) / 10 for step in range(10)]
    assert list(SCHEDULES) == ["constant", "linear", "cosine", "wsd", "inverse_sqrt"]
