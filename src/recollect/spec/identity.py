"""Plain data as JSON: the hash that identifies it, and numbers that JSON does not have."""

import hashlib
import json
import math
from typing import Any


def digest(data: Any) -> str:
    """A hash of plain data: 16 hexadecimal digits."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def finite(value: Any) -> Any:
    """The value, or None where it is a number that is not finite: JSON has neither NaN nor infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
