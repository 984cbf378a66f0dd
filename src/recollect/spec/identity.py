"""The hash that identifies plain data."""

import hashlib
import json
from typing import Any


def digest(data: Any) -> str:
    """A hash of plain data: 16 hexadecimal digits."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
