"""Names, comments, docstrings, messages and docs are in plain technical English: words that the project avoids do not come
back."""

import re
from pathlib import Path

import pytest

import recollect

SOURCE = Path(recollect.__file__).parent
ROOT = Path(__file__).parents[1]
FILES = [
    *(path for ending in ("py", "js") for path in SOURCE.rglob(f"*.{ending}")), *(ROOT / "docs").glob("*.md"),
    ROOT / "docs" / "reproductions" / "README.md", ROOT / "README.md",
    *(path for folder in ("tests", "benchmarks", "examples") for path in (ROOT / folder).rglob("*.py") if path != Path(__file__)),
]  # fmt: skip
COUNTED = (
    "one|bytes|operations|seconds|milliseconds|times|points|rows|examples?|streams?|items|methods?|functions?|workers?"
)
UNIT = "run|row|step|second|member|model|seed|GPU|core|rule|example|task|layer|token|epoch|parameter|operation|worker"
AVOIDED = {
    rf"\b({COUNTED}) an? ({UNIT})\b(?! (needs?|takes?|took|sees|of|has))": "write `per`: one row per run",
    r"\b(short|longer) numbers\b|\broomy\b": "write 16-bit, bf16 or float32",
    r"(?<![a-z])(told|tells?|telling|said|heard|hears?|hearing)(?![a-z])": "name what is returned, printed, reported or measured",
    r"\bstood for\b|\b(is|are) had\b|\bknock\w*\b|\bno_room\b": "say what happens",
    r"\b(gets?|got) there\b|\bc(omes?|ame) along\b|\bbr(ings?|ought) along\b": "say what is reached, or what is included",
    r"\b(who|what) is asked\b|\bhow it learns\b|\bkeeps? to\b|\bfor ever\b": "write a sentence with a subject and a verb",
    r"\b(in any|its|their) company\b|\bof whatever kind\b": "write: the other members, the other rows, of any kind",
    r"\botherwise than\b|\bsmall print\b|\ba person (who|is|sees|reads)\b": "write: differs from, caption, the user",
}
"""Patterns, and what to write instead."""


@pytest.mark.parametrize("pattern", AVOIDED)
def test_no_file_has_words_that_the_project_avoids(pattern):
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}"
        for path in FILES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(pattern, line, flags=re.IGNORECASE)
    ]
    assert not found, f"{AVOIDED[pattern]}:\n" + "\n".join(found)
