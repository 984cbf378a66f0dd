from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def write(tmp_path) -> Callable[..., None]:
    """Writes files by name: `pack__sub` is pack/sub.py, and `pack__` is pack/__init__.py."""

    def write(folder: str = "", **files: str) -> None:
        for name, text in files.items():
            path = Path(tmp_path, folder, name.replace("__", "/") + ("__init__.py" if name.endswith("__") else ".py"))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return write
