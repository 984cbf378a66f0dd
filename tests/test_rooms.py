"""The house has rooms in an order, and each imports only from those before it."""

import ast
from pathlib import Path

import recollect

ROOMS = [
    "spec", "imported", "rng", "tasks", "ops", "mixers", "architecture", "presets", "model", "train", "study", "analysis",
    "figures", "export", "evaluate", "testing", "diagram", "progress", "tables", "papers", "report", "probe", "bench",
    "demo", "cli",
]  # fmt: skip
SOURCE = Path(recollect.__file__).parent


def room(name: str) -> str:
    return name.split(".")[1] if "." in name else ""


def imports(path: Path) -> set[str]:
    """The rooms a file imports from, lazily or at its head."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "recollect":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("recollect."):
            found.add(room(node.module or ""))
        elif isinstance(node, ast.Import):
            found |= {room(alias.name) for alias in node.names if alias.name.startswith("recollect.")}
    return found - {"", "__version__"}


def test_a_room_imports_only_from_rooms_above_it():
    for path in sorted(SOURCE.rglob("*.py")):
        own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        assert own in ROOMS, f"{own} is a room that this list does not know"
        for other in imports(path):
            assert ROOMS.index(other) <= ROOMS.index(own), (
                f"{path.relative_to(SOURCE)} imports from {other}, a room below it"
            )
