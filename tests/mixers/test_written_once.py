"""A mixer only computes: where and how fast is the ops' affair, and nobody reads its private parts."""

import ast
import re
from pathlib import Path

import recollect

SOURCE = Path(recollect.__file__).parent


def test_mixers_do_not_ask_for_device_precision_training_or_hooks():
    asks = re.compile(
        r"is_cuda|device\.type|autocast|is_grad_enabled|_hooks|has_hooks|requires_grad\b|bfloat16|environ"
    )
    found = {path.name: asks.findall(path.read_text()) for path in (SOURCE / "mixers").glob("*.py")}
    assert not {name: words for name, words in found.items() if words}


def private_attributes(path: Path) -> list[str]:
    """Private attributes that a file reads of anything but its own objects and modules."""
    reads = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)]
    return [
        ast.unparse(node) for node in reads
        if re.match(r"_[a-z]", node.attr) and ast.unparse(node.value) not in ("self", "cls", "super()", "torch.ops.aten")
    ]  # fmt: skip


def test_what_builds_on_mixers_reads_nothing_private_of_them():
    files = [path for package in ("inspect", "models", "testing") for path in (SOURCE / package).glob("*.py")]
    files += list((SOURCE / "mixers").glob("*.py"))
    assert not {str(path.relative_to(SOURCE)): found for path in files if (found := private_attributes(path))}
