"""What a person meets in the first hour: errors that name the line, names used twice, estimates, quick studies, key lists."""

import io
import re

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from recollect.cli import app
from recollect.cli.options import print_best, print_failed
from recollect.spec import SpecError
from recollect.store.frames import runs_frame
from recollect.store.store import Store
from recollect.study import progress
from recollect.study.cost import measuring_advice
from recollect.study.grid import unfold
from recollect.study.progress import Progress
from recollect.study.queue import step_seconds
from recollect.study.quick import quick
from recollect.study.run import run
from recollect.study.spec import Study
from recollect.train.events import Measured
from recollect.train.spec import TrainSpec

MIXER = """
from torch import nn


class Mine(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.map = nn.Linear(width, width)

    def forward(self, x):
        y = self.map(x)
        return self.map(y[..., :3])
"""
TASK = {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32}
TRAIN = {"steps": 4, "batch": 4, "eval_every": 2, "eval_rows": 8, "test_rows": 8}


def study(name: str = "s", mixer: object = "attention", **train: object) -> Study:
    return Study(name=name, task=TASK, model={"mixer": mixer, "width": 16, "layers": 1}, train={**TRAIN, **train})


def recollect(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def test_an_error_in_code_of_my_own_names_its_file_and_line(tmp_path):
    (tmp_path / "mine.py").write_text(MIXER)
    mine = study(mixer=f"{tmp_path}/mine.py:Mine", lr=0.01)
    found = run(mine, store=tmp_path / "s.sqlite", device="cpu", workers=1, progress=False)
    (error,) = found.failed.values()
    assert error.startswith("RuntimeError: ")
    assert error.endswith("(mine.py:12)")
    output = recollect("failures", "--store", tmp_path / "s.sqlite")
    assert "(mine.py:12)" in output
    traceback = recollect("failures", "--traceback", "--store", tmp_path / "s.sqlite")
    assert "return self.map(y[..., :3])" in traceback


def test_an_error_that_all_runs_have_is_printed_once_with_their_number(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MIXER)
    mine = study(mixer="mine.py:Mine", lr=[1e-3, 1e-2, 1e-1], seed=[1, 2, 3])
    console = Console(file=io.StringIO(), width=200)
    found = run(mine, store="s.sqlite", device="cpu", workers=1, cohort=3, progress=Progress(console))
    output = console.file.getvalue()
    assert output.count("failed: run ") == 1
    assert output.count(": trying again") == 1
    assert output.count("2 runs of Mine go on as two halves") == 1
    with pytest.raises(typer.Exit):
        print_failed(found)
    output = capsys.readouterr().err
    assert output.count("RuntimeError: ") == 1
    assert "9 runs: " in output
    assert output.count(" and 3 more") == 1


NAN = MIXER.replace("self.map(y[..., :3])", "y.log()")


def test_where_every_run_diverged_no_rate_is_called_the_best(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(NAN)
    own = study(mixer="mine.py:Mine", lr=[1e-3, 1e-2])
    print_best(run(own, store="s.sqlite", device="cpu", workers=1, progress=False).windows())
    assert capsys.readouterr().out == "No learning rate is best: every run diverged.\n"


def test_a_name_used_again_for_another_grid_keeps_the_old_study(tmp_path):
    store, notes = Store(tmp_path / "s.sqlite", create=True), []

    def train(**fields: object) -> None:
        watch = [lambda cohort, event: notes.append(getattr(event, "text", ""))]
        run(study(**fields), store=store, device="cpu", workers=1, progress=False, sinks=watch)

    train(lr=[1e-3, 1e-2])
    train(lr=[1e-3, 1e-2, 1e-1])
    assert list(store.studies()) == ["s"], "a study that grows is the same"
    train(lr=[1e-4])
    train(lr=[1e-5])
    assert {name: len(runs) for name, runs in store.studies().items()} == {"s": 1, "s.1": 3, "s.2": 1}
    assert len(runs_frame(store, "s.1")) == 3
    assert any("it is called s.1 now" in text for text in notes)


def test_a_study_of_failed_runs_makes_way_for_the_next_attempt(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MIXER)
    for lr in (1e-3, 1e-2):
        run(study(mixer="mine.py:Mine", lr=lr), store="s.sqlite", device="cpu", workers=1, progress=False)
    assert list(Store("s.sqlite").studies()) == ["s"]


def test_a_plan_says_what_measuring_costs_and_how_to_make_it_a_fifth():
    advice = measuring_advice(TrainSpec(steps=50, batch=16))
    assert advice.startswith("measuring costs 1192%")
    fields = dict(pair.split(": ") for pair in advice.split("`")[1].split(", "))
    assert measuring_advice(TrainSpec(steps=50, batch=16, **{k: int(v) for k, v in fields.items()})) == ""
    assert measuring_advice(TrainSpec(steps=10_000, batch=512)) == ""


@pytest.mark.parametrize(
    "fields", [{"lr": "logspace(1e-5, 1e-1, 17)", "seed": [7, 8]}, {"lr": 0.01}, {"lr": [1e-3, 1e-2]}]
)
def test_a_quick_study_has_few_rates_one_seed_and_few_steps(fields):
    large = study(mixer=["attention", "base_conv"], **fields | {"steps": 100_000})
    small = quick(large)
    runs = small.runs()
    assert small.name == "s-quick"
    assert {run.model.mixer.kind for run in runs} == {"attention", "base_conv"}
    rates, asked = {run.train.lr for run in runs}, {run.train.lr for run in large.runs()}
    assert rates <= asked
    assert len(rates) <= 3
    assert len({run.train.seed for run in runs}) == 1
    assert {run.train.total_steps for run in runs} == {200}
    assert Study.from_yaml(small.to_yaml()).runs() == runs


def test_a_quick_study_of_a_search_trains_some_of_its_grid():
    searching = Study(name="s", task=TASK, model={"width": 16, "layers": 1}, train={"steps": 500}, search="window")
    assert len(quick(searching).runs()) == 3


def test_the_time_left_is_shown_as_soon_as_enough_was_measured(monkeypatch):
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    shown = Progress(Console(file=io.StringIO(), width=200))
    runs = study(lr=[1e-3, 1e-2], steps=1000).runs()
    shown.begin({"s": runs}, ())

    def measured(step: int) -> str:
        shown.event(runs, Measured(step, 1000, {run.id: 0.1 for run in runs}))
        return shown._line()

    now = 100.0  # workers started, code was compiled
    assert "left" not in measured(100)
    now = 105.0
    assert "left" not in measured(150)
    now = 120.0
    assert "about 1:10 left" in measured(300), "20 s for 200 of 1,000 steps, whatever came before them"


def test_work_is_counted_in_expected_seconds_and_own_code_as_the_mean(tmp_path, monkeypatch):
    small, large = (study(steps=100, batch=batch).runs()[0] for batch in (8, 4096))
    (tmp_path / "own.py").write_text(
        "from torch import nn\nclass Own(nn.Identity):\n    def __init__(self, width): super().__init__()\n"
    )
    monkeypatch.chdir(tmp_path)
    own = study(mixer="own.py:Own", steps=100).runs()[0]
    work = step_seconds([small, large, own], "cpu")
    assert work[large.id] > 5 * work[small.id]
    assert work[own.id] == (work[small.id] + work[large.id]) / 2
    assert step_seconds([large, own], "cuda")[large.id] < work[large.id]
    shown = Progress(Console(file=io.StringIO(), width=200))
    shown.begin({"s": [small, large]}, ())
    shown.event([small], Measured(50, 100, {small.id: 0.1}))
    assert "of 2 runs, " in shown._line()
    assert shown._share() == pytest.approx(work[small.id] / (work[small.id] + work[large.id]) / 2)


def test_steps_of_code_that_is_still_being_compiled_say_nothing_of_the_time_left(monkeypatch):
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    shown = Progress(Console(file=io.StringIO(), width=200))
    runs = study(steps=1000).runs()
    shown.begin({"s": runs}, ())

    def measured(step: int, full_speed: bool = True) -> str:
        shown.event(runs, Measured(step, 1000, {run.id: 0.1 for run in runs}, full_speed=full_speed))
        return shown._line()

    now = 10.0
    assert "left" not in measured(50, full_speed=False)
    now = 100.0
    assert "left" not in measured(200, full_speed=False)
    now = 110.0
    assert "left" not in measured(300)
    now = 130.0
    assert "about 0:20 left" in measured(650), "20 s for 350 steps"


def test_key_lists_have_preset_and_protocol():
    with pytest.raises(SpecError, match="did you mean 'preset'"):
        Study(model={"presett": "x"}, train=TRAIN).runs()
    with pytest.raises(SpecError, match=r"choose from: .*protocol"):
        Study(train={**TRAIN, "zzz": 1}).runs()


def test_a_range_is_an_axis():
    assert unfold("range(3)", "train.seed") == [0, 1, 2]
    assert unfold("range(1, 7, 2)", "train.seed") == [1, 3, 5]
    for text in ("range()", "range(a)", "range(0)", "range(1, 2, 3, 4)"):
        with pytest.raises(SpecError, match=r"train\.seed"):
            unfold(text, "train.seed")


def test_show_marks_what_is_asked_about():
    output = recollect("show", "task", "position", "length=8").splitlines()
    tokens, marks = output[3:5]
    assert marks.split() == ["!", "?^1", "^2"]
    assert tokens[marks.index("!") :].split()[0] == tokens[marks.index("?") :].split()[0]
    duplicates = recollect("show", "task", "duplicates", "length=24", "n=2", "k=1").splitlines()[4]
    assert duplicates.count("!") == 4
    assert "!" not in recollect("show", "task", "mixture", "parts=[{kind: mqar, length: 16, pairs: 2, vocab: 32}]")
    with pytest.raises(ValueError, match=r"such as \[mqar, "):
        recollect("show", "task", "mixture")


def test_show_model_takes_a_mixer_as_a_study_file_writes_it():
    written = recollect("show", "model", "{kind: attention, conv: k}", "width=32")
    assert written == recollect("show", "model", "attention", "conv=k", "width=32")


OWN_TASK = """
import torch
from recollect.tasks import Batch, Task


class Good(Task):
    vocab: int = 8
    length: int = 5

    def sample(self, stream):
        x = stream.integers(4, 0, self.vocab)
        last = torch.full_like(x[:, :1], 4)
        return Batch(torch.cat([x, x[:, :1]], 1), positions=last, answers=x[:, 1:2], source=torch.ones_like(last))


class NoBatch(Good):
    def sample(self, stream):
        return stream.integers(4, 0, self.vocab)


class OtherTokens(Good):
    def sample(self, stream):
        drawn = super().sample(stream)
        return Batch(drawn.tokens + 100, drawn.positions, drawn.answers)


class Shorter(Good):
    @property
    def row_length(self):
        return 9


class ReadsBehind(Good):
    def sample(self, stream):
        drawn = super().sample(stream)
        return Batch(drawn.tokens, drawn.positions + 40, drawn.answers)
"""
BAD_TASKS = {
    "NoBatch": ("shapes: sample gives Tensor, not a Batch", "sample gives Tensor, not a Batch"),
    "OtherTokens": ("tokens: a token is outside the vocabulary of 8", r"token 10\d is not in 0 .. 7"),
    "Shorter": (r"shapes: tokens is \(64, 5\), not \(64, 9\)", r"a row has shape \(1, 5\), row_length says \(1, 9\)"),
    "ReadsBehind": ("positions: an answer is read outside the row of 5", "position 44 is not in 0 .. 4"),
}


@pytest.mark.parametrize("name", BAD_TASKS)
def test_a_task_of_my_own_with_bad_rows_is_refused_by_name(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN_TASK)
    shown = CliRunner().invoke(app, ["show", "task", f"own.py:{name}"])
    assert shown.exit_code == 1
    assert re.search(BAD_TASKS[name][0], shown.output)
    bad = Study(name="s", task=f"own.py:{name}", model={"width": 16, "layers": 1}, train={**TRAIN, "lr": 0.01})
    (error,) = run(bad, store="s.sqlite", device="cpu", workers=1, progress=False).failed.values()
    assert re.search(f"own.py:{name}: {BAD_TASKS[name][1]}", error)


def test_a_task_of_my_own_that_keeps_the_rules_is_shown_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN_TASK)
    shown = CliRunner().invoke(app, ["show", "task", "own.py:Good"])
    assert shown.exit_code == 0, shown.output
    assert "broken" not in shown.output
