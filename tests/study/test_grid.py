"""A study file unfolds into the runs a reader would expect, and says what is wrong where it cannot."""

import pytest

from recollect.spec import SpecError
from recollect.study.grid import count, unfold
from recollect.study.spec import Study

BASE = {"task": {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32}, "train": {"steps": 5, "lr": 0.01}}


def study(**fields) -> Study:
    return Study(**{"name": "s", **BASE, **fields})


def test_lists_and_ranges_are_axes_and_their_product_is_the_grid():
    grid = {"model": {"mixer": ["a", "b"]}, "train": {"lr": "logspace(1e-5, 1e-1, 5)", "seed": [1, 2], "batch": 8}}
    points = unfold(grid)
    assert len(points) == count(grid) == 2 * 5 * 2
    assert [p["train"]["lr"] for p in points[::2]][:5] == [1e-5, 1e-4, 1e-3, 1e-2, 1e-1]
    assert unfold({"x": "linspace(0, 1, 3)"}) == [{"x": 0.0}, {"x": 0.5}, {"x": 1.0}]


def test_a_mapping_in_a_list_may_have_axes_of_its_own():
    mixers = ["attention", {"kind": "attention", "conv": ["k", "v"]}]
    runs = study(model={"mixer": mixers, "width": 16}).runs()
    assert [run.model.title for run in runs] == ["attention", "attention(conv=k)", "attention(conv=v)"]


def test_tests_are_a_list_by_themselves():
    runs = study(tests=[{"kind": "mqar", "length": 24, "pairs": 2, "vocab": 32}]).runs()
    assert len(runs) == 1
    assert runs[0].tests[0].row_length == 24


def test_zipped_fields_vary_together_and_exclusions_leave_runs_out():
    both = study(zip=[{"task.length": [16, 24], "task.pairs": [2, 3]}], model={"layers": [1, 2]})
    assert [(r.task.length, r.task.pairs, r.model.layers) for r in both.runs()] == [
        (16, 2, 1),
        (16, 2, 2),
        (24, 3, 1),
        (24, 3, 2),
    ]
    fewer = both.changed(exclude=[{"task.length": 24, "model.layers": [2, 3]}])
    assert len(fewer.runs()) == 3
    mixers = study(
        model={"mixer": ["attention", {"kind": "attention", "heads": 2}]}, exclude=[{"model.mixer": "attention"}]
    )
    with pytest.raises(SpecError, match="leave no runs"):
        mixers.runs()


def test_a_run_that_appears_twice_runs_once():
    assert len(study(train={"steps": 5, "lr": [0.01, 1e-2], "seed": [1, 1]}).runs()) == 1


def test_a_protocol_fills_in_what_is_not_given():
    (run,) = study(train={"protocol": "okpekpe2025", "lr": 0.01}).runs()
    assert (run.train.epochs, run.train.batch, run.train.train_rows) == (50, 512, 100_000)
    (short,) = study(train={"protocol": "okpekpe2025", "lr": 0.01, "steps": 7, "batch": 3}).runs()
    assert (short.train.total_steps, short.train.batch) == (7, 3)
    long = {"kind": "mqar", "length": 512, "pairs": 64}
    assert study(task=long, train={"protocol": "okpekpe2025", "lr": 0.01}).runs()[0].train.batch == 128


def test_runs_share_the_parts_in_which_they_are_equal_so_that_each_is_checked_once():
    tasks = [{**BASE["task"], "length": length} for length in (16, 24)]
    grid = study(
        task=tasks,
        model={"mixer": ["attention", "mamba"], "width": [16, 32]},
        train={"steps": 5, "lr": [0.01, 0.02, 0.03], "seed": [1, 2]},
        tests=[{**BASE["task"], "length": 28}],
    )
    runs = grid.runs()
    assert len(runs) == 2 * 4 * 6
    counts = {part: len({id(getattr(run, part)) for run in runs}) for part in ("task", "model", "train")}
    assert counts == {"task": 2, "model": 4, "train": 2 * 6}, "what a protocol gives depends on the task"
    assert len({id(test) for run in runs for test in run.tests}) == 1


def test_a_protocol_gives_each_task_of_a_grid_its_own_numbers():
    tasks = [{"kind": "mqar", "length": 64, "pairs": 4}, {"kind": "mqar", "length": 512, "pairs": 64}]
    runs = study(task=tasks, train={"protocol": "okpekpe2025", "lr": 0.01}).runs()
    assert [run.train.batch for run in runs] == [512, 128]


def test_a_study_goes_to_yaml_and_back(tmp_path):
    one = study(model={"mixer": ["attention", "mamba"]}, train={"lr": "logspace(1e-3, 1e-1, 3)", "steps": 5})
    path = tmp_path / "s.yaml"
    path.write_text(one.to_yaml())
    assert [run.id for run in Study.load(path).runs()] == [run.id for run in one.runs()]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"train": {"steps": 5, "lr": []}}, "train.lr: an empty list leaves no runs"),
        ({"train": {"steps": 5, "lr": "logspace(1e-1, 1e-5, 9)"}}, "low <= high"),
        ({"train": {"steps": 5, "lr": "logspace(0, 1, 9)"}}, "low > 0"),
        ({"train": {"steps": 5, "lr": "linspace(1, 0, 3)"}}, "low <= high"),
        ({"train": {"steps": 5, "lr": "logspace(1e-3, 1e-3, 9)"}}, "gives one value 9 times; write 0.001"),
        ({"train": {"steps": 5, "lr": "logspace(1e-3, 1e-1, 0)"}}, "at least one point"),
        ({"task": []}, "task: an empty list leaves no runs"),
        ({"model": {"mixer": []}}, "model.mixer: an empty list leaves no runs"),
        ({"zip": [{"task.length": []}]}, "task.length: an empty list leaves no runs"),
        ({"zip": [{}]}, "zip: an empty group leaves no runs"),
        ({"train": {"steps": 5, "lr": "logspace(1, 2)"}}, "write logspace"),
        ({"train": {"steps": 5, "lr": -1}}, "train.lr: input should be greater than 0"),
        ({"train": {"steps": 5, "learning_rate": 1}}, "unknown key 'learning_rate'"),
        ({"train": {"protocol": "okpekpe"}}, "did you mean 'okpekpe2025'"),
        ({"train": {"lr": 1e-3}}, "give steps or epochs"),
        ({"model": {"mixer": "mambo"}}, "did you mean 'mamba'"),
        ({"model": {"mixer": {"kind": "attention", "head": 2}}}, "did you mean 'heads'"),
        ({"task": {"kind": "mqar", "length": 16, "pairs": 5}}, "pairs at most 4"),
        ({"task": {"kind": "mqra"}}, "did you mean 'mqar'"),
        ({"zip": [{"task.length": [16, 32], "task.pairs": [1]}]}, "task.length has 2, task.pairs has 1"),
        ({"exclude": [{"model.depth": 2}]}, "no field 'model.depth'"),
    ],
)
def test_what_cannot_be_is_refused_with_the_value_and_the_choices(fields, message):
    with pytest.raises(SpecError, match=message):
        study(**fields).runs()


def test_a_grid_of_more_than_a_million_runs_is_asked_about():
    huge = study(train={"steps": 5, "lr": "logspace(1e-5, 1, 2000)", "seed": list(range(1000))})
    with pytest.raises(SpecError, match="2,000,000 runs"):
        huge.check_size(allow_many=False)
    huge.check_size(allow_many=True)
