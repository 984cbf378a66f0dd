"""Parameter groups: which parameters a factor moves, what a cohort may mix, and what is refused."""

import pytest
import torch

from recollect.spec import SpecError
from recollect.study.spec import Study
from recollect.train.cohort import Cohort
from recollect.train.optimisers.base import Optimiser
from recollect.train.spec import RunSpec

CPU = torch.device("cpu")


class Bare(Optimiser):
    """Has no numbers."""

    def start(self, params):
        return {}

    def step(self, params, grads, state, groups, number):
        pass


def run(mixer="mamba", seed=1, **train) -> RunSpec:
    how = {"lr": 1e-2, "seed": seed, "steps": 20, "batch": 4, "precision": "float64", **train}
    task = {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32}
    return RunSpec.model_validate({"task": task, "model": {"mixer": mixer, "width": 16, "layers": 1}, "train": how})


def moved(*runs: RunSpec) -> list[set[str]]:
    """Of each run, the parameters that three steps move."""
    cohort = Cohort(runs, CPU)
    before = {name: p.clone() for name, p in cohort.members.params.items()}
    for step in range(3):
        cohort.advance(step)
    after = cohort.members.params
    return [{name for name in after if not torch.equal(after[name][i], before[name][i])} for i in range(len(runs))]


SSM = {"layers.0.mixer.ssm.A_log", "layers.0.mixer.ssm.D"}


def test_a_planted_factor_moves_exactly_the_named_parameters():
    all_of_them, still, only = moved(
        run(groups={"*.A_log|*.D": {"lr": 1}, "!*.A_log|!*.D|*": {"lr": 1}}),
        run(groups={"*.A_log|*.D": {"lr": 0}, "!*.A_log|!*.D|*": {"lr": 1}}),
        run(groups={"*.A_log|*.D": {"lr": 1}, "!*.A_log|!*.D|*": {"lr": 0}}),
    )
    assert all_of_them - still == SSM == only
    assert len(all_of_them) > 10


@pytest.mark.parametrize("optimiser", ["adamw", "muon", "lion", "sgd", "schedule_free"])
def test_groups_of_factor_one_change_nothing(optimiser):
    plain = Cohort([run(optimiser=optimiser)], CPU)
    grouped = Cohort(
        [run(optimiser=optimiser, groups={"*.A_log": {"lr": 1, "weight_decay": 1}, "*.D": {"lr": 1}})], CPU
    )
    for step in range(3):
        plain.advance(step)
        grouped.advance(step)
    for name, p in plain.members.evaluated().items():
        assert torch.equal(p, grouped.members.evaluated()[name])


def test_a_rate_of_a_group_is_that_rate_for_all():
    half = Cohort([run(groups={"*": {"lr": 0.5, "weight_decay": 2}})], CPU)
    plain = Cohort([run(lr=5e-3, weight_decay=0.2)], CPU)
    for step in range(3):
        half.advance(step)
        plain.advance(step)
    for name, p in plain.members.params.items():
        torch.testing.assert_close(p, half.members.params[name], rtol=0, atol=1e-12)


def test_the_preset_of_state_space_models_exempts_what_mamba_exempts_and_nothing_in_attention():
    (group, exempt) = Cohort([run(groups="ssm")], CPU).members.groups()
    assert set(exempt.names) == SSM
    assert exempt.numbers["weight_decay"].tolist() == [0, 0]
    assert group.numbers["weight_decay"].tolist() == [0.1, 0.1]
    assert len(Cohort([run("attention", groups="ssm")], CPU).members.groups()) == 1


def test_no_groups_are_no_part_of_an_identity():
    assert run().id == run(groups="none").id != run(groups="ssm").id
    again = run(groups={"*.A_log": {"lr": 0.1}})
    assert RunSpec.model_validate_json(again.model_dump_json()).id == again.id


def test_a_factor_may_be_written_as_yaml_writes_small_numbers():
    ours, plain = (run(groups={"*.A_log": {"lr": factor}}) for factor in ("1e-1", 0.1))
    assert ours.id == plain.id


def test_clipping_by_decay_by_group_factors_is_one_cohort_a_mixer():
    study = Study(
        name="e", task={"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32},
        model={"mixer": ["attention", "mamba"], "width": 16, "layers": 1},
        train={"lr": [1e-3, 1e-2], "seed": [1, 2], "steps": 9, "clip": [0, 1], "weight_decay": [0, 0.01, 0.1],
               "groups": {"layers.*": {"lr": [1, 0.3]}}},
    )  # fmt: skip
    runs = study.runs()
    assert len(runs) == 2 * 2 * 2 * 2 * 3 * 2
    assert len({spec.shape for spec in runs}) == 2


def test_members_that_leave_take_their_factors_along():
    runs = [run(seed=seed, groups={"*.A_log": {"lr": factor}}) for seed, factor in ((1, 0.1), (2, 0.2), (3, 0.3))]
    cohort = Cohort(runs, CPU)
    cohort.keep([2, 0])
    assert [group.numbers["lr"].tolist() for group in cohort.members.groups()] == [
        [0.01, 0.01], pytest.approx([0.003, 0.001])
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ({"optimiser": "adamv"}, "unknown optimiser 'adamv': did you mean 'adamw'"),
        ({"groups": {"*.A_lag": {"lr": 0.1}}}, "'*.A_lag' matches no parameter; there are: embedding.weight, "),
        ({"groups": {"*.A_log|*.none": {"lr": 0.1}}}, "'*.none' matches no parameter"),
        ({"groups": {"*.A_log|!*.ssm.*": {"lr": 0.1}}}, "'*.A_log|!*.ssm.*' matches no parameter"),
        ({"groups": {"*.A_log": {"lr": 0.1}, "*.ssm.*": {"lr": 1}}},
         "'*.A_log' and '*.ssm.*' overlap: both match layers.0.mixer.ssm.A_log"),
        ({"groups": "smm"}, "unknown preset 'smm' of groups: did you mean 'ssm'"),
        ({"groups": {"*.D": {"rate": 0.1}}}, "unknown number 'rate'"),
        ({"groups": {"*.D": {"lr": -1}}}, "lr needs a factor from 0 up, and got -1"),
        ({"groups": {"*.D": {"lr": "a tenth"}}}, "lr needs a factor from 0 up, and got 'a tenth'"),
        ({"groups": None}, "train.groups: unknown preset None of groups: did you mean 'none'? choose from: none, ssm; or a "),
        ({"groups": ["*.D"]}, "unknown preset ['*.D'] of groups"),
        ({"groups": {"*.D": {}}}, "'*.D' needs factors such as {lr: 0.1}, and got {}"),
        ({"groups": {"*.D": {"beta1": 1.2}}}, "groups: '*.D': beta1 times 1.2: beta1: input should be less than 1 (got 1.08)"),
        ({"groups": "ssm", "optimiser": f"{__name__}:Bare"}, "unknown number 'weight_decay'"),
        ({"optimiser": "muon", "matrices": "*.A_lag"}, "muon needs matrices, and no parameter with two axes matches '*.A_lag'"),
        ({"optimiser": "lion", "beta1": 1.0}, "beta1: input should be less than 1 (got 1.0)"),
        ({"optimiser": "muon", "beta2": -0.1}, "beta2: input should be greater than or equal to 0 (got -0.1)"),
        ({"optimiser": "schedule_free", "beta1": 0}, "beta1: input should be greater than 0 (got 0)"),
        ({"optimiser": "sgd", "beta1": 0.9}, "optimiser 'sgd' has no field 'beta1'"),
        ({"z_loss": -1}, "z_loss: input should be greater than or equal to 0"),
        ({"schedule": "wsd", "decay_share": 2}, "decay_share: input should be less than or equal to 1"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_one_clear_line(train, message):
    with pytest.raises(SpecError) as caught:
        run(**train)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
