"""A hook of MkDocs: files of the repository that a page links to become part of the site, code as a highlighted page."""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
FOLDER = "repository"
"""Where such files stand on the site."""
SHOWN = {".py": "python", ".yaml": "yaml"}
"""Files that become a page; Markdown does too, and others are copied."""
_LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(#[^)\s]*)?(?=\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what pages link to, and what added pages link to."""
    waiting = [path for file in files.documentation_pages() for path in _outside(file.src_uri, file.content_string)]
    while waiting:
        path = waiting.pop()
        if files.get_file_from_path(_name(path)) is None:
            files.append(_file(path, config))
            if path.endswith(".md"):
                waiting += _outside(_name(path), (ROOT / path).read_text())
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links to files of the repository to where they stand on the site."""
    uri = page.file.src_uri

    def moved(link: re.Match) -> str:
        target = _in_repository(uri, link[1])
        if not (ROOT / target).is_file():
            return link[0]
        place = target.removeprefix("docs/") if target.startswith("docs/") else _name(target)
        return posixpath.relpath(place, posixpath.dirname(uri) or ".") + (link[2] or "")

    return markdown if uri.removesuffix(".md").endswith(tuple(SHOWN)) else _LINK.sub(moved, markdown)


def _outside(uri: str, text: str) -> list[str]:
    """The files outside docs/ that a page links to, as paths from the root of the repository."""
    targets = {_in_repository(uri, target) for target, _ in _LINK.findall(text)}
    return sorted(path for path in targets if not path.startswith("docs/") and (ROOT / path).is_file())


def _in_repository(uri: str, target: str) -> str:
    """The path, from the root of the repository, of what the page `uri` of the site links to."""
    page = posixpath.join("docs", uri)
    if uri.startswith(FOLDER + "/"):
        page = uri.removeprefix(FOLDER + "/")
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), target))


def _name(path: str) -> str:
    """Where a file of the repository stands among the site's sources."""
    return f"{FOLDER}/{path}" + (".md" if Path(path).suffix in SHOWN else "")


def _file(path: str, config: MkDocsConfig) -> File:
    language = SHOWN.get(Path(path).suffix)
    if language is None:
        return File.generated(config, _name(path), abs_src_path=str(ROOT / path))
    return File.generated(config, _name(path), content=f"# {path}\n\n```{language}\n{(ROOT / path).read_text()}```\n")
