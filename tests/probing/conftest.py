"""The command line in this process: the same words, the same exit codes, and no second start of Python."""

import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from recollect.cli import main

HERE = Path(__file__).parent


class Result(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def recollect(tmp_path, monkeypatch, capsys) -> Iterator[Callable[..., Result]]:
    """Runs a command in a folder that holds `mixers.py`; cohorts are trained in this process."""
    shutil.copy(HERE / "mixers.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("recollect.study.executors.sharing.cores", lambda: 1)

    def run(*words) -> Result:
        monkeypatch.setattr(sys, "argv", ["recollect", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        return Result(code if isinstance(code, int) else 0, *capsys.readouterr())

    before = signal.getsignal(signal.SIGTERM)
    yield run
    signal.signal(signal.SIGTERM, before)
