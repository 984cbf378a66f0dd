"""The hash that stands for plain data."""

import hashlib
import json
from typing import Any


def digest(data: Any) -> str:
    """16 hexadecimal digits that stand for plain data."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
