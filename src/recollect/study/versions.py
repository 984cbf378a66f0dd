"""What numbers were made with."""

import platform
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy
import torch

import recollect


@cache
def release() -> str:
    """The version of this code, and the commit where it runs from a working copy of its repository."""
    root = Path(recollect.__file__).parents[2]
    if (root / ".git").exists():
        with suppress(OSError, subprocess.SubprocessError):
            command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--exclude=*"]
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
            return f"{recollect.__version__} at {done.stdout.strip()}"
    return recollect.__version__


def versions() -> dict[str, str]:
    """What the numbers were made with."""
    return {
        "recollect": release(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "python": platform.python_version(),
    }
