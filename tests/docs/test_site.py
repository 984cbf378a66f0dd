"""Every link of the built site leads to a page or a file of the site, and to a heading that is there."""

import os
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from subprocess import run
from urllib.parse import unquote

import pytest
import yaml

ROOT = Path(__file__).parents[2]


class Links(HTMLParser):
    """The links and pictures of a page, and the names that can be linked to."""

    def __init__(self, page: Path):
        super().__init__()
        self.targets: list[str] = []
        self.names: set[str] = set()
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.targets += [value for name in ("href", "src") if (value := values.get(name))]
        self.names |= {value for name in ("id", "name") if (value := values.get(name))}


def built(folder: Path, address: str = "") -> Path:
    """The site, with or without the address of the repository."""
    pytest.importorskip("mkdocs", reason="needs the extra: pip install 'recollect[docs]'")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)]  # with -q warnings are not counted
    others = {name: value for name, value in os.environ.items() if name != "REPOSITORY_URL"}
    variables = others | ({"REPOSITORY_URL": address} if address else {})
    done = run(words, cwd=ROOT, capture_output=True, text=True, env=variables)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> dict[Path, Links]:
    folder = built(tmp_path_factory.mktemp("site"))
    return {page: Links(page) for page in folder.rglob("*.html") if page.name != "404.html"}


def test_every_link_of_the_site_leads_somewhere(site):
    for page, links in site.items():
        for target in links.targets:
            place, _, name = unquote(target).partition("#")
            if re.match(r"\w+:", place):
                continue
            found = (page.parent / place).resolve() if place else page
            found = found / "index.html" if found.is_dir() else found
            assert found.is_file(), f"{page} links to {target}"
            assert not name or found not in site or name in site[found].names, f"{page} links to {target}"


def test_linked_files_of_the_repository_are_on_the_site(site):
    pages = {page.parent.name: page.read_text() for page in site}
    assert "MyMixer" in pages["my_mixer.py"]
    assert "Notebook of measurements" in pages["NOTES"]


def test_a_page_links_to_the_repository_only_where_its_address_is_known(site, tmp_path):
    address = "https://github.com/somebody/recollect"
    page = built(tmp_path, address) / "index.html"
    assert address in Links(page).targets
    assert 'data-md-component="source"' not in page.read_text(), "the theme would ask the host for stars and versions"
    assert not [path for path in site if "md-source" in path.read_text()]


def test_a_release_builds_the_site_with_the_address_of_its_repository():
    release = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    (build,) = [step for step in release["jobs"]["site"]["steps"] if "mkdocs build --strict" in step.get("run", "")]
    assert build["env"] == {"REPOSITORY_URL": "${{ github.server_url }}/${{ github.repository }}"}
    assert "!ENV [REPOSITORY_URL, " in (ROOT / "mkdocs.yml").read_text()


def test_a_page_loads_nothing_from_elsewhere(site):
    for page in site:
        loaded = re.findall(r"<(?:script|img|link)\b[^>]*?\b(?:src|href)=\"(\w+:[^\"]*)", page.read_text())
        assert not loaded, f"{page} loads {loaded}"


def test_pages_fit_a_phone_in_both_themes_and_ask_no_other_server(site, browser):
    top = min(len(path.parts) for path in site)
    with browser(390, dark=True) as page:
        for path in sorted(path for path in site if len(path.parts) <= top + 1):
            page.goto(path.as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, path.parent.name
        themes = [page.evaluate("document.body.dataset.mdColorScheme")]
        page.locator("[data-md-component=palette] label:visible").click()
        themes.append(page.evaluate("document.body.dataset.mdColorScheme"))
        assert themes == ["slate", "default"]
        assert {url.partition(":")[0] for url in page.requested} <= {"file", "data", "blob"}
