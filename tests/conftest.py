"""What tests of several packages share."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

RECORDED = Path(__file__).parent / "recorded" / "store-2.sqlite"
"""A sound store with the study `old` and eight runs."""


class Told(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str

    def refuses(self, *words: str) -> bool:
        """Whether it is exit code 2 and one line with these words."""
        return self.code == 2 and len(self.err.strip().splitlines()) == 1 and all(word in self.err for word in words)


@pytest.fixture
def sound(tmp_path) -> Path:
    """A sound store that a test may damage."""
    return Path(shutil.copy(RECORDED, tmp_path / "store.sqlite"))


@pytest.fixture
def cli(monkeypatch, capsys) -> Callable[..., Told]:
    """Runs a command in this process, which saves the seconds that a new one needs for its imports."""
    from recollect.cli.app import main

    def run(*words: object) -> Told:
        monkeypatch.setattr(sys, "argv", ["recollect", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        return Told(int(end.value.code or 0), out, err)

    return run
