"""Which package may import which: data flows one way, from specifications to pages."""

import ast
import re
from pathlib import Path

import recollect

SOURCE = Path(recollect.__file__).parent
BASE = {"spec", "rng"}
TRAINING = BASE | {"tasks", "ops", "mixers", "models", "train"}
RESULTS = TRAINING | {"sources", "store", "study", "analysis", "inspect"}
MAY_IMPORT: dict[str, set[str]] = {
    "spec": set(),
    "rng": {"spec"},
    "tasks": BASE,
    "ops": BASE,
    "mixers": BASE | {"ops"},
    "models": BASE | {"ops", "mixers", "tasks"},
    "analysis": {"spec"},
    "train": TRAINING - {"train"},
    "sources": TRAINING,
    "store": TRAINING,
    "study": TRAINING | {"sources", "store", "analysis", "testing"},
    "inspect": TRAINING,
    "figures": {"spec", "analysis"},
    "views": {"spec", "analysis", "figures"},
    "testing": TRAINING,
    "papers": RESULTS | {"figures"},
    "evaluation": RESULTS | {"figures"},
    "importing": {"spec", "study"},
    "probing": RESULTS | {"figures", "testing"},
    "reporting": RESULTS | {"papers", "figures", "views"},
    "serve": RESULTS | {"views", "probing"},
    "bench": TRAINING | {"study"},
    "cli": RESULTS
    | {"figures", "papers", "evaluation", "importing", "probing", "reporting", "serve", "views", "bench"},
}
"""For each package, the others whose modules it imports, at the head of a file or inside a function."""
LOOKS_AHEAD = {"study/outcome.py": {"figures", "reporting", "views"}}
"""What a result offers a notebook, `.plot()` and `.report()`, is built from it: the one place where the flow turns back."""


def package(name: str) -> str:
    return name.split(".")[1] if "." in name else ""


def imports(path: Path) -> set[str]:
    """The packages a file imports from."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "recollect":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("recollect."):
            found.add(package(node.module or ""))
        elif isinstance(node, ast.Import):
            found |= {package(alias.name) for alias in node.names if alias.name.startswith("recollect.")}
    return found - {"", "__version__"}


def test_the_top_level_holds_packages_and_two_modules():
    assert {path.name for path in SOURCE.glob("*.py")} == {"__init__.py", "rng.py"}


def test_a_package_imports_only_what_it_may():
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        assert own in MAY_IMPORT, f"{own} is a package that the map does not know"
        place = str(path.relative_to(SOURCE))
        known = MAY_IMPORT[own] | LOOKS_AHEAD.get(place, set()) | {own}
        wrong += [f"{place} imports {other}" for other in imports(path) - known]
    assert not wrong, "\n".join(wrong)


def test_no_package_imports_itself_through_another():
    """The map has no cycles, so a package can be read without those that build on it."""
    left = {name: set(others) - {name} for name, others in MAY_IMPORT.items()}
    while left:
        ready = {name for name, others in left.items() if not others & left.keys()}
        assert ready, f"a cycle among {sorted(left)}"
        left = {name: others for name, others in left.items() if name not in ready}


def test_sql_is_in_the_store_only():
    sql = re.compile(r"\b(SELECT|INSERT) |\bsqlite3\b|\b_query\(")
    found = {
        str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py")
        if path.relative_to(SOURCE).parts[0] != "store" and sql.search(path.read_text())
    }  # fmt: skip
    assert not found


def test_no_file_is_longer_than_three_hundred_lines():
    long = {str(path.relative_to(SOURCE)): lines for path in SOURCE.rglob("*.py")
            if (lines := len(path.read_text().splitlines())) > 300 and "triton" not in path.parts}  # fmt: skip
    assert not long


def test_no_private_attribute_of_a_mixer_is_read_outside_of_mixers():
    """Only a mixer itself, or one that derives from it, reads its attributes with a leading underscore."""
    own = {name for path in (SOURCE / "mixers").glob("*.py") for name in _private_names(path)}
    wrong = []
    for path in SOURCE.rglob("*.py"):
        mixer = "mixers" in path.relative_to(SOURCE).parts
        known = set() if mixer else _private_names(path)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in own - known:
                through_self = isinstance(node.value, ast.Name | ast.Call) and ast.unparse(node.value) in (
                    "self",
                    "super()",
                )
                if not (mixer and through_self):
                    wrong.append(f"{path.relative_to(SOURCE)}:{node.lineno}: {ast.unparse(node)}")
    assert not wrong, "\n".join(wrong)


def test_mixers_and_models_do_not_ask_where_they_run():
    """Whether a fused form is used is decided in ops/fused.py, which ops call; a mixer or a model only calls an op."""
    asked = {"is_cuda", "is_cpu", "is_grad_enabled", "_forward_hooks", "_forward_pre_hooks", "is_compiling"}
    wrong = [
        f"{path.relative_to(SOURCE)}:{node.lineno}: {ast.unparse(node)}"
        for package in ("mixers", "models") for path in (SOURCE / package).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and (node.attr in asked or ast.unparse(node).endswith("device.type"))
    ]  # fmt: skip
    assert not wrong, "\n".join(wrong)


def _private_names(path: Path) -> set[str]:
    """The private methods and attributes that a file defines."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    names |= {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    return {name for name in names if name.startswith("_") and not name.startswith("__")}
