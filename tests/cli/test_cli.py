"""The command line: what it prints, what it writes, and how it says no."""

import json
import os
import re
import subprocess
import sys

import pytest

STUDY = """
name: small
task: {kind: mqar, length: 16, pairs: 2, vocab: 32}
model: {mixer: [attention, {kind: attention, conv: k}], width: 16, layers: 1}
train: {lr: [0.001, 0.01], seed: 1, steps: 10, batch: 8, eval_every: 5, eval_rows: 16, test_rows: 32}
"""


def recollect(*words, cwd) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "recollect.cli", *map(str, words)], capture_output=True, text=True, cwd=cwd
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder in which a small study has been run."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "small.yaml").write_text(STUDY)
    done = recollect("run", "small.yaml", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder, done


def test_run_says_what_it_does_and_draws(finished):
    folder, done = finished
    assert "study small: 4 runs" in done.stdout
    assert "4 of 4 runs" in done.stdout, "plain lines where there is no terminal"
    assert "\x1b" not in done.stdout
    assert {path.name for path in (folder / "results" / "small").iterdir()} == {"window.png", "window.svg"}


def test_run_again_trains_nothing(finished):
    folder, _ = finished
    again = recollect("run", "small.yaml", cwd=folder)
    assert again.returncode == 0
    assert "4 of them done already" in again.stdout
    assert "trained" not in again.stdout


def test_status_and_results(finished):
    folder, _ = finished
    assert re.search(r"small\s*│\s*4\s*│\s*4\s*│\s*0\s*│\s*0\s*│\s*0", recollect("status", cwd=folder).stdout)
    assert "attention(conv=k)" in recollect("results", "small", cwd=folder).stdout
    written = recollect("results", "small", "--to", "out.json", cwd=folder)
    assert written.returncode == 0
    assert [row["train.lr"] for row in json.loads((folder / "out.json").read_text())] == [0.001, 0.01, 0.001, 0.01]
    curves = recollect("results", "small", "--what", "curves", "--to", "curves.csv", cwd=folder)
    assert "8 rows written" in curves.stdout


def test_show_task_and_model(tmp_path):
    task = recollect("show", "task", "mqar", "length=16", "pairs=2", cwd=tmp_path)
    assert task.returncode == 0, task.stderr
    model = recollect("show", "model", "attention", "width=32", "conv=k", "layers=3", cwd=tmp_path)
    assert model.returncode == 0, model.stderr
    assert "attention[conv=k](norm x)" in model.stdout
    assert "× 3" in model.stdout
    assert "recurrent state" in model.stdout


BAD = {
    "an impossible task": (
        "task: {kind: mqar, length: 16, pairs: 5, vocab: 32}",
        r"pairs 5 do not fit length 16.*at most 4",
    ),
    "an unknown mixer": ("model: {mixer: atention}", r"unknown mixer 'atention': did you mean 'attention'"),
    "an unknown key": ("modle: {width: 3}", r"unknown key 'modle': did you mean 'model'"),
    "an option of a mixer": (
        "model: {mixer: mamba, state: 8}",
        r"unknown key 'state': it is an option of the mixer, so write `mixer: {kind: mamba, state: 8}`",
    ),
    "an unknown key inside": ("model: {widht: 3}", r"unknown key 'widht': did you mean 'width'"),
    "a negative rate": ("train: {lr: -0.1, steps: 5}", r"train.lr: input should be greater than 0 \(got -0.1\)"),
    "not YAML": ("name: [unclosed", r"not YAML"),
    "a list": ("- 1\n- 2", r"a study is a mapping"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_line_exit_code_2_and_nothing_written(tmp_path, case):
    text, message = BAD[case]
    (tmp_path / "bad.yaml").write_text(text)
    result = recollect("run", "bad.yaml", cwd=tmp_path)
    assert result.returncode == 2
    assert re.search(message, result.stderr), result.stderr
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["bad.yaml"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "absent.yaml"), "no such study file"),
        (("run", "small.yaml", "--store", "small.yaml/store.sqlite"), "small.yaml is a file, not a folder"),
        (("results", "--store", "absent.sqlite"), "no store at absent.sqlite"),
        (("report", "small", "--to", "x.pdf"), "a report is an .html file"),
        (("papers", "--scale", "smal"), "unknown scale 'smal': did you mean 'small'"),
        (("reproduce", "okpekpe2025/fig7", "--format", "gif"), "no format gif: choose from png, svg, pdf"),
        (("results", "smal"), "did you mean 'small'"),
        (("results", "--to", "x.xls"), r"choose from: .csv, .json, .parquet"),
        (("results", "--to", "no/folder/x.csv"), "there is no folder"),
        (("show", "task", "mqra"), "did you mean 'mqar'"),
        (("show", "model", "mambo"), "did you mean 'mamba'"),
        (("show", "model", "attention", "width"), "expected name=value"),
        (("mad", "mambo", "--plan"), "did you mean 'mamba'"),
        (("run", "small.yaml", "--devise", "cpu"), "(?i)no such option"),
        (("run", "small.yaml", "--device", "abacus"), "abacus"),
    ],
)
def test_bad_words_are_one_clear_line_and_exit_code_2(finished, words, message):
    folder, _ = finished
    result = recollect(*words, cwd=folder)
    assert result.returncode == 2, result.stdout
    assert re.search(message, result.stderr), result.stderr
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr


@pytest.mark.parametrize("words", [(), ("show",), ("--help",)])
def test_alone_it_prints_help_and_ends_well(tmp_path, words):
    result = recollect(*words, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "Usage" in result.stdout
    assert not result.stderr


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("rnu",), ("run", "--help")], ids=" ".join)
def test_what_needs_no_model_does_not_load_torch(words):
    code = (
        "import sys; from recollect.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def complete(line: str, cwd) -> list[str]:
    """What bash offers for the last word of a line."""
    words = line.split(" ")
    environment = {
        **os.environ, "_RECOLLECT_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1),
    }  # fmt: skip
    code = "import sys; sys.argv = ['recollect']; from recollect.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=cwd, env=environment)
    return done.stdout.split()


def test_bash_completes_commands_and_names(tmp_path):
    assert complete("recollect repr", tmp_path) == ["reproduce"]
    assert {"mamba", "mamba2"} <= set(complete("recollect show model mam", tmp_path))
    assert "mqar" in complete("recollect show task mq", tmp_path)
    assert complete("recollect reproduce okp", tmp_path) == ["okpekpe2025"]
    assert "ray" in complete("recollect run s.yaml --executor r", tmp_path)
