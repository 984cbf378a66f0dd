"""The documentation is whole: what it links to is there, and the reference is that of the code."""

import dataclasses
import importlib.util
import re
from pathlib import Path

import pytest
import yaml

import recollect
from recollect.mixers import MIXERS
from recollect.tasks import TASKS
from recollect.train.optimisers import OPTIMISERS
from recollect.train.schedules import SCHEDULES
from recollect.views import VIEWS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md", ROOT / "SECURITY.md", ROOT / "CHANGELOG.md", ROOT / "benchmarks/NOTES.md", *sorted(DOCS.glob("*.md")),
]  # fmt: skip


class Settings(yaml.SafeLoader):
    """Reads MkDocs' settings, in which `!ENV` names an environment variable and a value for when it is not set."""


Settings.add_constructor("!ENV", lambda loader, node: loader.construct_sequence(node)[-1])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" not in target:
            assert (page.parent / target.partition("#")[0]).exists(), f"{page.name} links to {target}"


def pages_of(part: str | list | dict) -> list[str]:
    """The pages of a part of the contents, whether a page, a list of parts or a part with its title."""
    if isinstance(part, str):
        return [part]
    return [page for inner in (part.values() if isinstance(part, dict) else part) for page in pages_of(inner)]


def test_every_page_is_in_the_contents():
    site = yaml.load((ROOT / "mkdocs.yml").read_text(), Settings)
    assert site["strict"] is True
    expected = [*(page.name for page in DOCS.glob("*.md")), "reproductions/README.md"]
    assert sorted(pages_of(site["nav"])) == sorted(expected)


@pytest.mark.parametrize(
    ("title", "registry"),
    [("Tasks", TASKS), ("Mixers", MIXERS), ("Optimisers", OPTIMISERS), ("Schedules", SCHEDULES)],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_readme_lists_what_is_built_in(title, registry):
    (listed,) = re.findall(rf"\*\*{title}:\*\*(.*?)(?=\n\n|\*\*)", (ROOT / "README.md").read_text(), re.DOTALL)
    names = {name for name in re.findall(r"`([^`]+)`", listed) if ":" not in name}
    assert names == set(registry)


def test_the_page_on_views_lists_every_view():
    text = (DOCS / "explore.md").read_text()
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == set(VIEWS)


def test_the_citation_is_of_this_version_and_names_whom_the_licence_names():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == recollect.__version__
    assert [author["name"] for author in citation["authors"]] == re.findall(
        r"Copyright \(c\) \d+ (.+)", (ROOT / "LICENSE").read_text()
    )


def script(name: str):
    """A script of the docs, as a module."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("name", "write"), [("reference", "reference"), ("atlas", "page"), ("window", "page")])
def test_pages_made_from_code_and_tables_are_current(name, write):
    module = script(name)
    assert getattr(module, write)() == module.PAGE.read_text(), f"write it anew: python docs/{name}.py"


def test_the_reference_explains_every_option_of_a_mixer():
    mixers = script("reference").reference().partition("## Mixers")[2].partition("## Tasks")[0]
    assert not re.findall(r"^\| `.* \|  \|$", mixers, re.MULTILINE)


def test_the_page_on_windows_says_what_was_not_trained(tmp_path, monkeypatch):
    module = script("window")
    trained = sum(module.part(question).evidence is not None for question in module.QUESTIONS)
    assert module.page().count("it has not been trained") == len(module.QUESTIONS) - trained
    monkeypatch.setattr(module, "KEPT", tmp_path)
    empty = module.page()
    assert "Nothing has been trained yet" in empty
    assert empty.count("it has not been trained") == len(module.QUESTIONS)


def test_the_page_on_windows_has_rounded_numbers_and_takes_the_first_scale_that_can_be_judged(tmp_path, monkeypatch):
    module = script("window")
    number = "1.78 (1.26 .. 2.3; 2 seeds; best rate at the edge of the grid); best epoch 1.8 (1.3 .. 2.3; 2 seeds)"
    assert module.readable(number) == "1.78 or more (1.26 to 2.30)"
    assert module.readable("unknown") == "unknown"
    question = next(one for one in module.QUESTIONS if one.change == "longer training")
    whole = module.part(question).evidence
    for name in ("runs.csv", "lengths.csv"):
        for scale in ("medium", "tiny"):
            file = tmp_path / scale / "widen2026" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()

    def kept(item, scale, folder):
        return whole if scale == "tiny" else dataclasses.replace(whole, scale=scale, runs=whole.runs.head(3))

    monkeypatch.setattr(module, "KEPT", tmp_path)
    monkeypatch.setattr(module, "kept", kept)
    found = module.part(question)
    assert (found.scale, found.outcome) == ("tiny", "widens")
    assert "**Shown so far to widen a window: longer training.**" in module.answer([found])


def test_counts_in_the_pages_are_those_of_the_kept_verdicts():
    module = script("counts")
    for page in module.PAGES:
        assert module.written(page) == page.read_text(), "write it anew: python docs/counts.py"
    text = (DOCS / "reproductions" / "README.md").read_text()
    for paper, scale, _ in module.folders():
        assert f"| {paper.name} | {scale} |" in text
        assert str(len(paper.claims)) in text
