"""What numbers were made with."""

import platform
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path

import recollect


@cache
def release() -> str:
    """The version of this code, and where it runs from a working copy of its repository, the commit (`-dirty`: edited since)."""
    folder = Path(recollect.__file__).parent
    if (folder.parents[1] / ".git").exists():
        with suppress(OSError, subprocess.SubprocessError):
            commit, edited = _git(folder, "rev-parse", "--short", "HEAD"), _git(folder, "status", "--porcelain", ".")
            return f"{recollect.__version__} at {commit}{'-dirty' if edited else ''}"
    return recollect.__version__


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()


def versions() -> dict[str, str]:
    """What the numbers were made with."""
    import numpy
    import torch

    return {
        "recollect": release(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "python": platform.python_version(),
    }
