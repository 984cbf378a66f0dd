"""The JavaScript that is written by hand stays short and readable: Python prepares what it can, the browser does the rest."""

import ast
import re
from pathlib import Path

import recollect

SOURCE = Path(recollect.__file__).parent
SCRIPT = re.compile(r"=>|\bconst |\bdocument\.|\bparams\.value")
"""What shows that a text in Python is a script."""


def scripts() -> dict[str, list[str]]:
    """The lines of every script by its place: files, and texts in Python that a browser runs."""
    found = {str(path.relative_to(SOURCE)): path.read_text().splitlines() for path in SOURCE.rglob("*.js")}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and SCRIPT.search(node.value):
                found[f"{path.relative_to(SOURCE)}:{node.lineno}"] = node.value.strip().splitlines()
    return found


def test_scripts_are_short_and_their_lines_too():
    found = scripts()
    assert {place.split(":")[0] for place in found} == {
        *(f"reporting/page/{name}.js" for name in ("data", "chart", "page")),
        "serve/page.py",
        "serve/parts.py",
    }
    assert sum(map(len, found.values())) <= 330
    long = [f"{place}: {line}" for place, lines in found.items() for line in lines if len(line) > 120]
    assert not long, "\n".join(long)
