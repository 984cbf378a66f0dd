"""What is released: a wheel that works where nothing but its dependencies is installed, and a source distribution of the same."""

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest

import recollect

ROOT = Path(__file__).parents[1]


def dependencies(requirements: list[str]) -> dict[str, Distribution]:
    """The distributions that these need, and those that they need in turn, extras left out."""
    found: dict[str, Distribution] = {}
    waiting = list(requirements)
    while waiting:
        line = waiting.pop()
        name = re.split(r"[^\w.-]", line.partition(";")[0].strip())[0].lower()
        if "extra ==" in line or name in found:
            continue
        try:
            found[name] = distribution(name)
        except ModuleNotFoundError:  # one for another platform or version of Python
            assert ";" in line, f"{name} is not installed"
            continue
        waiting += found[name].requires or []
    return found


def empty_environment(folder: Path, needed: dict[str, Distribution]) -> Path:
    """A virtual environment that sees these distributions only, by links to where they are; gives its interpreter."""
    venv.create(folder, with_pip=True)
    links = folder / "dependencies"
    links.mkdir()
    for each in needed.values():
        for top in {file.parts[0] for file in each.files or [] if file.parts[0] not in ("..", "__pycache__")}:
            if not (links / top).exists():
                (links / top).symlink_to(Path(str(each.locate_file(top))))
    packages = next((folder / "lib").glob("python*/site-packages"))
    (packages / "dependencies.pth").write_text(f"{links}\n")
    return folder / "bin" / "python"


@pytest.mark.long
def test_the_wheel_runs_the_demo_in_an_empty_environment(tmp_path):
    pytest.importorskip("hatchling")
    built = tmp_path / "dist"
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(built)], cwd=ROOT, check=True, capture_output=True
    )
    (wheel,), (source,) = built.glob("*.whl"), built.glob("*.tar.gz")
    assert wheel.name == f"recollect-{recollect.__version__}-py3-none-any.whl"
    with tarfile.open(source) as sources:
        names = {name.partition("/")[2] for name in sources.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "src/recollect/__init__.py"} <= names
    with zipfile.ZipFile(wheel) as files:
        inside = set(files.namelist())
        metadata = files.read(next(name for name in inside if name.endswith("METADATA"))).decode()
    here = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src/recollect").rglob("*.py")}
    assert {name for name in inside if name.endswith(".py")} == here
    for version in ("3.11", "3.12", "3.13"):
        assert f"Classifier: Programming Language :: Python :: {version}" in metadata
    needed = dependencies(re.findall(r"^Requires-Dist: (.+)$", metadata, re.MULTILINE))
    assert "torch" in needed
    assert not {"ray", "pytest", "submitit"} & needed.keys()
    python = empty_environment(tmp_path / "empty", needed)
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    subprocess.run([python, "-m", "pip", "install", "--no-deps", "--no-index", "-q", wheel], check=True, env=clean)
    result = subprocess.run(
        [python.with_name("recollect"), "demo", "--quick", "--store", "demo.sqlite"], cwd=tmp_path, env=clean,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "trained: 12 finished" in result.stdout
    assert (tmp_path / "quick" / "window.png").exists()
