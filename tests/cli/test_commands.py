"""Commands over results: summary, conditions, pictures, comparison, renaming and removing, on made-up results."""

import csv
import importlib.util
import io
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from recollect.analysis import window
from recollect.analysis.columns import where
from recollect.cli import app
from recollect.cli.app import console
from recollect.figures import window as window_figure
from recollect.spec import SpecError, UserError
from recollect.store.frames import curves_frame, runs_frame
from recollect.store.manage import garbage
from recollect.store.store import Store
from recollect.study import outcome
from recollect.study.spec import Study
from recollect.study.stored import summary

_PATH = Path(__file__).parents[2] / "benchmarks" / "large_store.py"
_SPEC = importlib.util.spec_from_file_location("large_store", _PATH)
large_store = importlib.util.module_from_spec(_SPEC)
sys.modules["large_store"] = large_store
_SPEC.loader.exec_module(large_store)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A store with made-up results of 1,000 runs: 4 mixers, 5 widths, 5 rates, 10 seeds."""
    path = tmp_path_factory.mktemp("made") / "store.sqlite"
    large_store.make(path, 1000, 4)
    return path


@pytest.fixture
def store(made, tmp_path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copy(made, tmp_path))


def recollect(*words: object, ok: bool = True) -> str:
    """What a command prints; an error that it raises is raised here."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert (done.exit_code == 0) == ok, done.output
    return done.output


def test_results_are_limited_in_a_terminal_and_say_so(made):
    output = recollect("results", "large", "--store", made)
    assert "the last 50 of 1,000 rows" in output
    assert len(output.splitlines()) < 60
    assert "rows" not in recollect("results", "large", "--limit", 1000, "--store", made)


@pytest.mark.parametrize("words", ["status", "results", "results --summary", "failures", "report --to {folder}/r.html"])
def test_commands_that_read_a_store_do_not_load_torch(made, tmp_path, words):
    code = "import sys; from recollect.cli import app; app(standalone_mode=False); assert 'torch' not in sys.modules"
    given = words.format(folder=tmp_path).split()
    done = subprocess.run([sys.executable, "-c", code, *given, "--store", made], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


INTERRUPTED = """
import signal, sys
from recollect.cli import main
from recollect.mixers.spec import MixerSpec

def options(self):
    if sys._getframe(1).f_code.co_name == "_flat":  # pydantic calls it, and makes an error of its own of what it raises
        signal.raise_signal(signal.SIGINT)
    return self.__dict__["options"]

MixerSpec.options = property(options)
main()
"""


def test_an_interrupt_while_a_study_is_expanded_is_one_line(tmp_path):
    (tmp_path / "s.yaml").write_text(
        "{name: s, task: mqar, model: {mixer: attention}, train: {steps: 4, lr: [0.1, 0.2]}}"
    )
    words = [sys.executable, "-c", INTERRUPTED, "plan", "s.yaml"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 130, done.stderr
    assert done.stderr == "stopped; what has ended is saved, and the same command continues from here\n"


def test_a_run_of_a_finished_study_expands_it_once_and_finds_its_windows_once(store, tmp_path, monkeypatch):
    calls = Counter()

    def counted(function, key):
        def call(*given, **options):
            calls[key(options)] += 1
            return function(*given, **options)

        return call

    monkeypatch.setattr(Study, "runs", counted(Study.runs, lambda options: "expanded"))
    resampled = counted(window.windows, lambda options: f"windows, {options.get('resamples', 1000)} resamples")
    for user in (window, window_figure, outcome):
        monkeypatch.setattr(user, "windows", resampled)
    (tmp_path / "large.yaml").write_text(large_store.study(1000).to_yaml())
    output = recollect("run", tmp_path / "large.yaml", "--device", "cpu", "--store", store)
    assert "Best learning rate of" in output
    assert calls == {"expanded": 1, "windows, 1000 resamples": 1, "windows, 1 resamples": 1}, (
        "the picture needs no interval"
    )


def test_results_by_condition_and_order(made):
    which = ("--where", "mixer = mamba2", "--where", "width<32", "--sort", "-accuracy", "--limit", 2)
    output = recollect("results", "large", *which, "--store", made)
    runs = runs_frame(Store(made), "large")
    best = runs[(runs["model.mixer"] == "mamba2") & (runs["model.width"] == 16)]["accuracy"].max()
    assert f"{best:.4g}" in output
    assert "the first 2 of 50 rows" in output
    assert "deltanet" not in output
    assert "meets the conditions" in recollect("results", "--where", "accuracy > 2", "--store", made)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("acuracy > 0.9", "no column 'acuracy': did you mean 'accuracy'"),
        ("accuracy", "write a column"),
        ("accuracy > high", "'high' is not"),
        ("mixer > 3", "mixer is not a number"),
    ],
)
def test_a_condition_that_cannot_be_read_is_refused(made, condition, message):
    with pytest.raises(SpecError, match=message):
        recollect("results", "--where", condition, "--store", made)


def test_a_form_of_a_summary_is_refused_for_runs_with_what_to_do(made):
    with pytest.raises(SpecError, match=r"--format csv is for a summary: add --summary, or write .* --to FILE\.csv"):
        recollect("results", "--format", "csv", "--store", made)


def test_a_mixer_of_ones_own_is_found_by_the_name_that_tables_show():
    frame = pd.DataFrame({"model.mixer": ["attention", "mine.py:Mine", "old.py:Mine"]})
    assert list(where(frame, ["mixer = Mine"])["model.mixer"]) == ["mine.py:Mine", "old.py:Mine"]
    assert list(where(frame, ["mixer = old.py:Mine"])["model.mixer"]) == ["old.py:Mine"]
    assert list(where(frame, ["mixer != Mine"])["model.mixer"]) == ["attention"]


def test_a_summary_has_a_row_per_configuration_in_every_format(made):
    found = summary(made, "large", conditions=["width = 16"])
    assert len(found) == 4
    asked = ("--summary", "--where", "width = 16")
    row = found.set_index("configuration").loc["mamba2, width=16"]
    runs = runs_frame(Store(made), "large")
    at_best = runs[(runs["configuration"] == "mamba2, width=16") & (runs["train.lr"] == row["best_lr"])]
    assert row["accuracy"] == pytest.approx(at_best["accuracy"].mean())
    assert (row["state_size"], row["parameters"], row["runs"]) == (1024, 16000, 50)
    assert row["steps_to_learn"] == 1000, "most seeds are below 0.95 at step 750"
    assert "steps to learn" in recollect("results", "large", *asked, "--store", made)
    text = recollect("results", "large", *asked, "--format", "csv", "--store", made)
    assert [line["configuration"] for line in csv.DictReader(io.StringIO(text))] == list(found["configuration"])
    latex = recollect("results", "large", *asked, "--format", "latex", "--store", made).splitlines()
    assert len(latex) == 4 + 6
    assert latex[0] == r"\begin{tabular}{lrrrrrrrrr}"
    assert any(line.startswith(r"base\_conv, width=16 & ") for line in latex)
    markdown = recollect("results", "large", *asked, "--format", "markdown", "--store", made).splitlines()
    assert {line.count("|") for line in markdown} == {11}


@pytest.mark.parametrize("ending", ["pdf", "svg", "png", "html"])
def test_plot_writes_the_picture_asked_for(made, tmp_path, ending):
    path = tmp_path / f"fig.{ending}"
    recollect("plot", "large", "--x", "width", "--lines", "mixer", "--to", path, "--size", "5x3", "--store", made)
    start = {"pdf": b"%PDF", "svg": b"<?xml", "png": b"\x89PNG", "html": b"<!doctype html>"}[ending]
    assert path.read_bytes().startswith(start)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--x", "mixer"), "model.mixer is not a number"),
        (("--y", "acuracy"), "did you mean 'accuracy'"),
        (("--to", "fig.xls"), "choose from: .html, .pdf, .png, .svg"),
        (("--size", "big"), "WIDTHxHEIGHT"),
        (("--where", "accuracy > 2"), "no runs to draw"),
    ],
)
def test_a_picture_that_cannot_be_drawn_is_refused(made, words, message):
    with pytest.raises(SpecError, match=message):
        recollect("plot", "large", *words, "--store", made)


def test_compare_finds_the_configurations_of_both_and_their_difference(made, store, tmp_path):
    other = Store(store)
    runs = runs_frame(other, "large")
    gone = runs.loc[runs["model.mixer"] == "mamba2", "id"]
    from recollect.store.manage import remove_runs

    remove_runs(other, list(gone))
    words = ("compare", "large", f"{store}:large", "--store", made)
    output = recollect(*words, "--to", tmp_path / "two.png", "--csv", tmp_path / "two.csv")
    assert (tmp_path / "two.png").stat().st_size > 10_000
    rows = list(csv.DictReader(io.StringIO((tmp_path / "two.csv").read_text())))
    assert len(rows) == 20
    assert {row["difference"] for row in rows if "mamba2" in row["configuration"]} == {""}
    assert {float(row["difference"]) for row in rows if "mamba2" not in row["configuration"]} == {0.0}
    assert output.startswith("large (A) and store.sqlite:large (B)")
    assert "large (A) and large (B)" in recollect("compare", "large", "large", "--store", made)
    with pytest.raises(SpecError, match="meets the conditions"):
        recollect(*words, "--where", "accuracy > 2")


def test_a_study_is_renamed_and_keeps_its_runs(store):
    recollect("rename", "large", "second", "--store", store)
    opened = Store(store)
    assert list(opened.studies()) == ["second"]
    assert "name: second" in opened.study_source("second")
    assert len(runs_frame(opened, "second")) == 1000
    for name, message in (("a b", "cannot name a study"), ("second", "has a study 'second' already")):
        with pytest.raises(UserError, match=message):
            recollect("rename", "second", name, "--store", store)


def test_removing_asks_first_and_gc_removes_what_belongs_to_no_study(store):
    opened = Store(store)
    with pytest.raises(SpecError, match="Add --yes"):
        recollect("remove", "large", "--store", store)
    assert list(opened.studies()) == ["large"]
    first = runs_frame(opened).iloc[0]["id"]
    assert "1 runs" in recollect("remove", first, "--yes", "--store", store)
    assert opened.find(first) == []
    assert curves_frame(opened, runs=[first]).empty
    recollect("remove", "large", "--yes", "--store", store)
    assert opened.studies() == {}
    assert len(runs_frame(opened)) == 999
    size = store.stat().st_size
    assert "999 results" in recollect("gc", "--yes", "--store", store)
    assert runs_frame(opened).empty
    assert store.stat().st_size < size / 5
    assert "nothing to remove" in recollect("gc", "--yes", "--store", store)
    assert garbage(opened).checkpoints == []


def test_a_study_is_removed_with_the_runs_that_no_other_has(store):
    opened = Store(store)
    study = large_store.study(1000).changed(name="part", model={"mixer": "mamba2", "width": 16, "layers": 2})
    with opened.writing() as writer:
        writer.add_study("part", study.to_yaml(), study.runs())
    recollect("remove", "large", "--with-runs", "--yes", "--store", store)
    assert len(runs_frame(opened)) == len(runs_frame(opened, "part")) == 50


def test_a_name_that_is_neither_a_study_nor_a_run_is_refused_with_the_nearest(store):
    with pytest.raises(SpecError, match=r"no study and no run 'larg' in .*: did you mean 'large'\?"):
        recollect("remove", "larg", "--yes", "--store", store)


def test_check_looks_at_the_usual_store(store, monkeypatch):
    monkeypatch.setenv("RECOLLECT_STORE", str(store))
    assert "the file is whole" in recollect("check")


def test_each_failure_is_printed_once_with_its_runs(store):
    opened = Store(store)
    assert "no run has failed" in recollect("failures", "--store", store)
    with opened.writing() as writer:
        for run in ("00aa", "00bb"):
            writer.add_failure(run, 1, "ValueError: [bold]wrong[/bold] (mine.py:7)", "Traceback ..\nline")
    output = recollect("failures", "--store", store)
    assert output.count("ValueError: [bold]wrong[/bold] (mine.py:7)") == 1
    assert "2 runs" in output
    assert "Traceback" in recollect("failures", "00a", "--traceback", "--store", store)
    with pytest.raises(SpecError, match="no run '77' has failed"):
        recollect("failures", "77", "--store", store)


def test_status_and_watch_show_how_far_each_is(store):
    assert "1000" in recollect("status", "--store", store)
    output = recollect("watch", "large", "--once", "--store", store)
    assert "50 of 50" in output
    assert "no process writes to it now" in " ".join(output.split())


def test_watch_shows_whole_names_in_a_narrow_terminal(store, monkeypatch):
    monkeypatch.setattr(console, "width", 80)
    output = recollect("watch", "large", "--once", "--store", store)
    assert "attention, width=16\n  steps: 100%; ended: 50 of 50; in training: 0;" in output
    assert max(map(len, output.splitlines())) <= 80


@pytest.mark.parametrize(
    "kind", ["mixers", "tasks", "presets", "protocols", "optimisers", "schedules", "papers", "views"]
)
def test_everything_with_a_name_is_listed(kind):
    from recollect.cli.listing import KINDS

    lines = list(KINDS[kind]())
    assert len({name for name, *_ in lines}) == len(lines) > 3
    assert all(about and not about.endswith("et al") for _, about, _ in lines)
    assert lines[0][0] in recollect("list", kind)
    assert not any(about.endswith("et al") for _, about, _ in lines)


def test_a_kind_that_cannot_be_listed_is_refused():
    with pytest.raises(SpecError, match="did you mean 'mixers'"):
        recollect("list", "mixer")


def test_text_that_a_spreadsheet_would_calculate_is_written_as_text(tmp_path):
    import pandas as pd

    from recollect.store.frames import write

    write(pd.DataFrame({"name": ["=1+1", "plain"], "x": [-1.5, 2.0]}), tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "name,x\n'=1+1,-1.5\nplain,2.0\n"
