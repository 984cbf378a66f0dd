"""Every code block and command of README.md, docs/ and examples/ works as it stands there.

A page is tried in a folder of its own that has the examples. What stands in a block decides how it is tried, the strictest first:

    yaml     is written to NAME.yaml, loaded as a study, and planned
    python   the blocks of a page are run one after another, as one file; test classes in them are run too
    sh       line by line. `recollect` commands that need no model or hour are executed; a study that is not quick is planned, and
             what would read its results, and every other `recollect` command, is parsed. Others are known by their first word.
    text     is what a program printed

A study that is not quick is only planned in Python too, and ends its page. A block of any other kind fails.
"""

import importlib.util
import re
import shlex
import shutil
import sys
import tomllib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from recollect.cli import app
from recollect.study.cost import work_of
from recollect.study.run import expand
from recollect.study.spec import Study

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted(path for path in (ROOT / "examples").iterdir() if path.suffix in (".py", ".yaml"))
QUICK = 2e6
"""Tokens of a study that is trained here: seconds."""
EXECUTED = ("show", "plan", "run", "status", "results")
READS_RESULTS = ("status", "results", "report", "export", "merge")
_BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<!`)`((?:recollect|python) [^`\n]+)`(?!`)")


class Planned(Exception):
    """A study that is too long to be trained here."""


@dataclass(frozen=True)
class Block:
    language: str
    text: str


def blocks(page: Path) -> list[Block]:
    return [Block(language, text) for language, text in _BLOCK.findall(page.read_text())]


def tokens(study: Study) -> float:
    (grid,) = expand(study)
    return sum(work_of(run).tokens for run in grid.runs)


def parse(words: list[str]) -> None:
    """Refuse what the command line would refuse, without doing anything."""
    command: Any = typer.main.get_command(app)
    words = words[1:]
    while hasattr(command, "commands"):
        if not words or words[0].startswith("-"):
            break
        assert words[0] in command.commands, f"there is no command {' '.join(words)!r}"
        command, words = command.commands[words[0]], words[1:]
    if words:
        command.make_context(command.name, list(words))


class Page:
    """A page as far as it has been tried."""

    planned = False
    """Whether a study was only planned, so that there are no results to read."""

    def line(self, line: str) -> None:
        """One line of a shell block."""
        words = shlex.split(line, comments=True)
        if not words:
            return
        program = Path(words[0]).name
        if program == "recollect":
            self.command(words)
        elif program in ("python", "python3"):
            if words[1:3] == ["-m", "pytest"]:
                assert all((ROOT / path).exists() for path in words[3:]), line
            else:
                assert words[1:3] == ["-m", "venv"] or (ROOT / words[1]).is_file(), f"there is no {words[1]}"
        elif program == "make":
            targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
            assert set(words[1:]) <= set(targets), line
        elif program == "pip":
            extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
            asked = [name for group in re.findall(r"\[(.*?)\]", line) for name in group.split(",")]
            assert set(asked) <= set(extras), line
        else:
            assert words[:2] == ["ray", "start"], f"what is to be done with {line!r}?"

    def command(self, words: list[str]) -> None:
        """A command of recollect, as far as it can be tried here."""
        parse(words)
        name = words[1]
        if name not in EXECUTED or (self.planned and name in READS_RESULTS):
            return
        if name == "run":
            study = Study.load(words[2])
            if tokens(study) > QUICK or "--executor" in words:
                self.planned = True
                return
            words = [*words, "--workers", "1", "--device", "cpu"]
        app(words[1:], standalone_mode=False)


def run_python(source: str, name: str, folder: Path) -> None:
    """Run a page's Python as a module, which is what a task's identity needs, and the test classes in it."""
    path = folder / f"{name}_blocks.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
        for title, value in vars(module).items():
            if title.startswith("Test") and isinstance(value, type):
                for test in (method for method in dir(value) if method.startswith("test_")):
                    with suppress(pytest.skip.Exception):
                        getattr(value(), test)()
    finally:
        del sys.modules[path.stem]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_works_as_it_stands(page, tmp_path, monkeypatch):
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path)
    trained = Study.run

    def run(study: Study, *words, **options):
        if tokens(study) > QUICK:
            raise Planned
        return trained(study, *words, **options)

    monkeypatch.setattr(Study, "run", run)
    found, tried = blocks(page), Page()
    for block in found:
        if block.language == "yaml":
            study = Study(**yaml.safe_load(block.text))
            Path(f"{study.name}.yaml").write_text(block.text)
            assert tokens(Study.load(f"{study.name}.yaml")) > 0
    for block in found:
        assert block.language in ("yaml", "python", "sh", "text"), f"what is to be done with {block}?"
        if block.language == "sh":
            for line in block.text.replace("\\\n", " ").splitlines():
                tried.line(line)
    source = "\n\n".join(block.text for block in found if block.language == "python")
    with suppress(Planned):
        run_python(source, page.stem, tmp_path)


@pytest.mark.parametrize("page", [*PAGES, *EXAMPLES], ids=lambda page: page.name)
def test_commands_in_passing_are_commands(page):
    """In sentences, in the head of an example, in a comment: a command is named, or parses whole."""
    text = page.read_text()
    spans = (
        _SPAN.findall(text)
        if page.suffix == ".md"
        else re.findall(r"^[# ]*((?:recollect|python) .+)$", text, re.MULTILINE)
    )
    for span in spans:
        words = [
            word for word in shlex.split(span, comments=True) if not word.startswith("[") and not word.endswith("]")
        ]
        if words[0] == "python":
            assert (
                words[1] == "-m" or not words[1].endswith(".py") or (ROOT / words[1]).is_file() or words[1] == "load.py"
            )
        elif len(words) > 2 or words[1].startswith("-"):
            parse(words)
        else:
            assert words[1] in typer.main.get_command(app).commands, span  # pyright: ignore


@pytest.mark.parametrize("path", [p for p in EXAMPLES if p.suffix == ".yaml"], ids=lambda path: path.name)
def test_an_example_study_can_be_planned(path, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert tokens(Study.load(path)) > 0
