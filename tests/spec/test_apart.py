"""Code of a user's own that ends, stops or changes its process does so in another one, and is refused in one line."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.spec import SpecError, apart
from recollect.spec.apart import run_apart

STUDY = """
task: {kind: mqar, length: 8, pairs: 1, vocab: 16}
model: {mixer: "own.py:Own", width: 8, layers: 1}
train: {lr: 0.01, steps: 2, batch: 2, eval_rows: 2, test_rows: 2}
"""
OWN = """
import os, sys
from torch import nn
class Own(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Linear(width, width)
        if "end" in os.environ: os._exit(0)
    def forward(self, x):
        return self.mix(x.cumsum(1))
"""


def numbers(how_many: int) -> Iterator[int]:
    yield from range(how_many)


def where() -> Iterator[str]:
    yield str(Path.cwd())
    yield os.environ.get("RECOLLECT_TRIED", "")
    os.environ["RECOLLECT_TRIED"] = "left behind"


def ends() -> Iterator[int]:
    yield 1
    os._exit(0)


def leaves() -> Iterator[int]:
    yield 1
    sys.exit(3)


def sleeps() -> Iterator[int]:
    yield 1
    time.sleep(100)


def cannot_be_loaded() -> None:
    raise RuntimeError("no such thing here")


class Unloadable:
    def __reduce__(self):
        return cannot_be_loaded, ()


def test_what_cannot_be_loaded_there_is_refused_with_the_reason():
    with pytest.raises(SpecError, match="it raised RuntimeError: no such thing here"):
        list(run_apart("it", numbers, Unloadable()))


def test_values_come_from_another_process_that_is_where_this_one_is_now(tmp_path, monkeypatch):
    assert list(run_apart("it", numbers, 3)) == [0, 1, 2]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECOLLECT_TRIED", "yes")
    for _ in range(2):
        assert list(run_apart("it", where)) == [str(tmp_path), "yes"]
    assert os.environ["RECOLLECT_TRIED"] == "yes"


def test_its_end_its_errors_and_its_silence_are_reported(monkeypatch):
    for function, message in (
        (ends, r"^it ended the process that it ran in \(exit code 0\)$"),
        (leaves, r"^it raised SystemExit: 3 \(\S*test_apart.py:\d+\)$"),
        (sleeps, r"^it gave no result within 0.5 seconds$"),
    ):
        found = run_apart("it", function)
        assert next(found) == 1
        monkeypatch.setattr(apart, "TIMEOUT", 0.5 if function is sleeps else 600.0)
        with pytest.raises(SpecError, match=message):
            next(found)


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        (["run", "s.yaml"], "import os; print('hello'); os._exit(0)", "importing it ended the process that it ran in (exit"),
        pytest.param(
            ["run", "s.yaml"], "import os; os.abort()", "importing it ended the process that it ran in (SIGABRT)",
            marks=pytest.mark.long,
        ),
        pytest.param(["plan", "s.yaml"], "import os; os.environ['end'] = ''", "", marks=pytest.mark.long),
        (["plan", "s.yaml"], OWN.replace('"end" in os.environ', "True"), "Own: building it ended the process"),
        (["probe", "own.py:Own"], OWN.replace('"end" in os.environ', "True"), "checking its rules ended the process"),
    ],
)  # fmt: skip
def test_a_command_whose_code_ends_the_process_never_ends_as_if_all_were_done(tmp_path, command, code, message):
    (tmp_path / "own.py").write_text(code if "class" in code else code + OWN)
    (tmp_path / "s.yaml").write_text(STUDY)
    line = [sys.executable, "-c", "from recollect.cli import main; main()", *command]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == (2 if message else 0), (done.stdout, done.stderr)
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == bool(message)
    assert "hello" not in done.stdout


INTERRUPTED = """
import os, signal, time
from recollect.cli import main
from recollect.study.executors.workers import Workers, _Worker
end = _Worker.end

def interrupted(worker):
    _Worker.end = end
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)

_Worker.end = interrupted
main()
"""


def test_a_command_ends_where_its_end_is_interrupted(tmp_path):
    """A second Ctrl-C may come when training has stopped and its workers are being ended."""
    (tmp_path / "s.yaml").write_text(STUDY.replace("own.py:Own", "attention"))
    words = [sys.executable, "-c", INTERRUPTED, "run", "s.yaml", "--device", "cpu", "--timeout", "1h"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr


def test_a_process_that_nobody_ends_does_not_keep_this_one_from_ending():
    code = "from recollect.spec import apart; list(apart.run_apart('it', range, 1)); kept = apart._idle.pop()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=40)
