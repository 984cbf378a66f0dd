"""YAML as plain data; text that cannot have been meant is refused before it is used."""

from typing import Any

import yaml

from recollect.spec.errors import SpecError

VALUES = 1_000_000
"""Values that a text may hold, each alias counted as often as it is used."""
DEPTH = 50
"""How deeply lists and mappings may be nested."""
_FAULTS = (ValueError, TypeError, AttributeError, KeyError, IndexError, OverflowError, RecursionError)
"""What PyYAML raises, besides its own errors, for dates, tags and numbers that cannot be, and for deep nesting."""


def read_yaml(text: str) -> Any:
    """The data of a YAML text. Refused are duplicate keys, keys that are not text, and anchors that contain themselves or unfold
    into more than a million values."""
    try:
        return _data(yaml.SafeLoader(text))
    except SpecError:
        raise
    except (yaml.YAMLError, *_FAULTS) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
        raise SpecError(f"not YAML: {reason[:300]}") from None


def _data(loader: yaml.SafeLoader) -> Any:
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _size(node, {}, 1)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _size(node: yaml.Node, known: dict[int, int | None], depth: int) -> int:
    """How many values a node unfolds into. `known` has the sizes so far, and None for nodes that are being looked at."""
    where = f"line {node.start_mark.line + 1}"
    if depth > DEPTH:
        raise SpecError(f"{where}: lists and mappings are nested more than {DEPTH} deep")
    if id(node) in known:
        size = known[id(node)]
        if size is None:
            raise SpecError(f"{where}: an anchor contains itself")
        return size
    known[id(node)] = None
    children: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        _check_keys(node)
        children = [child for pair in node.value for child in pair]
    elif isinstance(node, yaml.SequenceNode):
        children = node.value
    size = 1
    for child in children:
        size += _size(child, known, depth + 1)
        if size > VALUES:
            raise SpecError(f"{where}: anchors unfold into more than {VALUES:,} values")
    known[id(node)] = size
    return size


def _check_keys(node: yaml.MappingNode) -> None:
    seen: dict[str, int] = {}
    for key, _ in node.value:
        line = key.start_mark.line + 1
        if key.tag == "tag:yaml.org,2002:merge":
            continue
        if key.tag != "tag:yaml.org,2002:str":
            written = key.value if isinstance(key, yaml.ScalarNode) else key.id
            raise SpecError(f"line {line}: the key {written or 'null'} is not text; put it in quotes if it is meant")
        if key.value in seen:
            raise SpecError(f"line {line}: {key.value!r} is given twice, first in line {seen[key.value]}")
        seen[key.value] = line
