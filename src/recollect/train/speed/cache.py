"""Where compiled code is kept between commands, and how large that folder may become.

The folder is $RECOLLECT_CACHE, or `recollect` in the platform's folder for caches (Linux: $XDG_CACHE_HOME or ~/.cache). It may
be deleted at any time. $RECOLLECT_CACHE_GB bounds its size. PyTorch's and Triton's own variables take precedence.
"""

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

LIMIT = 20.0
"""GB that the folder may hold unless $RECOLLECT_CACHE_GB says otherwise: what was used longest ago is deleted."""
_KNOWN = "known"
"""The part of the folder that names what was compiled before."""
_CLAIM = "claim"
"""The ending of a file that says which process compiles something now."""


def cache_folder() -> Path:
    """The folder of compiled code."""
    if given := os.environ.get("RECOLLECT_CACHE"):
        return Path(given)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "recollect"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "recollect"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "recollect"


def use_cache() -> None:
    """Have this process, and those that it starts, keep compiled code in the folder."""
    for variable, part in (("TORCHINDUCTOR_CACHE_DIR", "inductor"), ("TRITON_CACHE_DIR", "triton")):
        os.environ.setdefault(variable, str(cache_folder() / part))
    for variable in ("TORCHINDUCTOR_FX_GRAPH_CACHE", "TORCHINDUCTOR_AUTOGRAD_CACHE"):  # older versions have them off
        os.environ.setdefault(variable, "1")


def known(mark: str) -> bool:
    """Whether the step of this mark was compiled before, so that the folder has it."""
    return (cache_folder() / _KNOWN / mark).exists()


def remember(mark: str) -> None:
    """Note that the step of this mark has been compiled."""
    with suppress(OSError):  # a folder that cannot be written costs time and nothing else
        (cache_folder() / _KNOWN).mkdir(parents=True, exist_ok=True)
        (cache_folder() / _KNOWN / mark).touch()


def claim(mark: str) -> bool:
    """Whether this process may compile the step of this mark: no other live process has claimed it."""
    path = cache_folder() / _KNOWN / f"{mark}.{_CLAIM}"
    for _ in range(2):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x") as file:
                file.write(str(os.getpid()))
            return True
        except FileExistsError:
            if claimed(mark):
                return False
            path.unlink(missing_ok=True)  # its process has died
        except OSError:
            return True
    return False


def claimed(mark: str) -> bool:
    """Whether a live process is compiling the step of this mark."""
    try:
        os.kill(int((cache_folder() / _KNOWN / f"{mark}.{_CLAIM}").read_text()), 0)
    except (OSError, ValueError):
        return False
    return True


def release(mark: str) -> None:
    """Let others compile the step of this mark."""
    with suppress(OSError):
        (cache_folder() / _KNOWN / f"{mark}.{_CLAIM}").unlink(missing_ok=True)


def trim_cache() -> None:
    """Delete what was used longest ago until the folder is within its bound."""
    limit = float(os.environ.get("RECOLLECT_CACHE_GB") or LIMIT) * 1e9
    entries = []
    for folder, _, files in os.walk(cache_folder()):
        here = Path(folder)
        for unit in [here / name for name in files] if here.name == _KNOWN else [here] if files else []:
            entries.append((*_age_and_size(unit), unit))
    total = sum(size for _, size, _ in entries)
    for _, size, unit in sorted(entries):
        if total <= limit:
            break
        total -= size
        if unit.is_dir():  # files of one entry belong together: all or none
            shutil.rmtree(unit, ignore_errors=True)
        else:
            unit.unlink(missing_ok=True)


def _age_and_size(unit: Path) -> tuple[float, int]:
    """When an entry was last used, and its bytes."""
    last, size = 0.0, 0
    for path in [file for file in unit.iterdir() if file.is_file()] if unit.is_dir() else [unit]:
        with suppress(OSError):  # another process has just deleted it
            found = path.stat()
            last, size = max(last, found.st_mtime, found.st_atime), size + found.st_size
    return last, size
