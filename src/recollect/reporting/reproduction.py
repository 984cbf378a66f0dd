"""What a folder of `recollect reproduce` holds, as plain data: the verdicts, each item's picture and its numbers."""

import base64
import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from recollect.papers import PAPERS
from recollect.spec import SpecError

if TYPE_CHECKING:
    from recollect.papers.item import Item

LARGE = 400_000
"""Bytes above which a drawing goes into the page as PNG and not as SVG."""
ROWS = 500
"""Rows of an item's numbers on the page, at most."""
_TYPES = {".svg": "image/svg+xml", ".png": "image/png"}


def read_reproduction(folder: Path) -> dict[str, Any]:
    """The verdicts, worst first, and the items in the paper's order."""
    verdicts = _verdicts(folder)
    paper = None
    with suppress(SpecError):  # a paper of another version: its pictures are shown without titles
        paper = PAPERS.find(verdicts[0]["paper"] if verdicts else folder.name)
    scale = verdicts[0]["scale"] if verdicts else folder.parent.name
    known = {item.name: item for item in paper.items} if paper else {}
    there = {path.stem for path in folder.iterdir() if path.suffix in _TYPES} | {
        verdict["item"] for verdict in verdicts
    }
    names = [name for name in known if name in there] + sorted(there - known.keys())
    title = paper.title if paper else folder.name
    return {
        "paper": paper.name if paper else folder.name, "scale": scale, "title": f"{title}: reproduced at scale {scale}",
        "verdicts": verdicts, "items": [_item(folder, name, known.get(name), scale) for name in names],
    }  # fmt: skip


def studies_of(found: dict[str, Any], known: list[str]) -> list[str]:
    """The studies of a store that belong to a paper at a scale: they are named PAPER.SOMETHING.SCALE."""
    return [name for name in known if name.startswith(f"{found['paper']}.") and name.endswith(f".{found['scale']}")]


def _verdicts(folder: Path) -> list[dict[str, Any]]:
    from recollect.papers.judge import ANSWERS  # brings torch along, which the pages of other studies do not need

    path = folder / "verdicts.json"
    if not path.is_file():
        raise SpecError(f"{folder} has no verdicts.json: name a folder that `recollect reproduce` wrote")
    try:
        records = json.loads(path.read_text(encoding="utf-8"))
        verdicts = [
            {
                "paper": record["paper"], "item": record["item"], "claim": record["claim"],
                "says": record.get("says") or record["claim"], "answer": record["answer"],
                "scale": record["scale"],
                "numbers": {name: str(value) for name, value in record["numbers"].items()}, "note": record.get("note", ""),
            }
            for record in records
        ]  # fmt: skip
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise SpecError(f"{path} is not a list of verdicts ({type(error).__name__}: {error})") from None
    order = {answer: place for place, answer in enumerate(ANSWERS)}
    return sorted(verdicts, key=lambda verdict: order.get(verdict["answer"], -1))


def _item(folder: Path, name: str, item: "Item | None", scale: Any) -> dict[str, Any]:
    known_fields = (
        {"title": f"{name}: {item.title}", "shows": item.shows, "differs": item.differs.get(scale, "")} if item else {}
    )
    drawings = [path for ending in _TYPES if (path := folder / f"{name}{ending}").is_file()]
    small = [path for path in drawings if path.stat().st_size <= LARGE] or drawings[::-1]
    uris = [f"data:{_TYPES[path.suffix]};base64,{base64.b64encode(path.read_bytes()).decode()}" for path in small[:1]]
    numbers = folder / f"{name}.csv"
    return {
        "name": name, "title": name, **known_fields, "picture": uris[0] if uris else None,
        "numbers": _numbers(numbers) if numbers.is_file() else None,
    }  # fmt: skip


def _numbers(path: Path) -> dict[str, Any] | None:
    try:
        frame = pd.read_csv(path)
    except pd.errors.EmptyDataError:  # drawn without a single run
        return None
    text = frame.head(ROWS).to_json(orient="values", double_precision=15)  # null for what is not finite
    return {"columns": [str(column) for column in frame.columns], "rows": json.loads(text or "[]"), "of": len(frame)}
