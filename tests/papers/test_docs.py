"""What is in docs/reproductions is what its kept runs give: items are drawn and judged again, without training."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pandas as pd
import pytest

from recollect.papers import PAPERS
from recollect.papers.item import Item
from recollect.papers.judge import SCALES, Scale
from recollect.papers.reproduce import _semantics, reproduce
from recollect.train.spec import SEMANTICS

DOCS = Path(__file__).parents[2] / "docs" / "reproductions"
IN_DOCS = [
    (name, scale) for name in PAPERS for scale in SCALES if _semantics(DOCS / scale / name / "runs.csv") == SEMANTICS
]


def complete(name: str, scale: Scale) -> Iterator[Item]:
    """The items in the docs that have all of their runs there."""
    folder, items = DOCS / scale / name, PAPERS.find(name).items
    known = set(pd.read_csv(folder / "runs.csv", usecols=["id"], dtype=str)["id"])
    drawn = (item for item in items if (folder / f"{item.name}.csv").exists() and item.grids(scale))
    return (item for item in drawn if {run.id for run in item.runs(scale)} <= known)


def same_as_in_docs(name: str, scale: Scale, items: list[Item], out: Path) -> None:
    """Draw and judge items again from the runs in the docs, and compare numbers and verdicts."""
    made = reproduce(f"{name}/{','.join(item.name for item in items)}", scale=scale, out=out, from_runs=DOCS)
    there = json.loads((DOCS / scale / name / "verdicts.json").read_text())
    again = {(record["item"], record["claim"]): record for record in there}
    for record in made.records:
        for field in ("answer", "numbers", "note", "reason"):
            assert record[field] == again[record["item"], record["claim"]].get(field, ""), (
                record["item"],
                record["claim"],
            )
    for item in items:
        assert (out / f"{item.name}.csv").read_bytes() == (DOCS / scale / name / f"{item.name}.csv").read_bytes()


@pytest.mark.parametrize(("name", "scale"), IN_DOCS)
def test_an_item_is_made_again_from_the_runs_in_the_docs(name, scale, tmp_path):
    if not (some := list(islice(complete(name, scale), 1))):
        pytest.skip(f"{name} at {scale}: no item has all of its runs in the docs")
    same_as_in_docs(name, scale, some, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(("name", "scale"), IN_DOCS)
def test_all_items_are_made_again_from_the_runs_in_the_docs(name, scale, tmp_path):
    if not (every := list(complete(name, scale))):
        pytest.skip(f"{name} at {scale}: no item has all of its runs in the docs")
    same_as_in_docs(name, scale, every, tmp_path)
