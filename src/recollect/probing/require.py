"""What a probed mixer must reach, as a continuous-integration job states it: `window>=1,accuracy>=0.95`."""

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recollect.spec import SpecError, nearest

MEASURES = {"window": "decades", "accuracy": "best", "steps": "step", "parameters": "parameters"}
"""What can be required, and the field of a record that holds it: decades of the window, the mean accuracy at the best rate, the
steps after which the quickest run recalls 99 %, and the model's parameters."""
COMPARISONS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}


@dataclass(frozen=True)
class Requirement:
    """One bound on one measure of the probed mixer."""

    measure: str
    sign: str
    bound: float

    def missed(self, record: Mapping[str, Any]) -> str:
        """Which record misses it, and by what; empty where it is met. What was never reached (NaN) misses every bound."""
        value = record[MEASURES[self.measure]]
        if COMPARISONS[self.sign](value, self.bound):
            return ""
        where = f"{record['model']} on {record['task']}, {record['layers']} layer{'s' * (record['layers'] > 1)}"
        return f"{where}: {self.measure} {value:.4g} is not {self.sign} {self.bound:g}"


def requirements(text: str) -> list[Requirement]:
    """The bounds that a text such as `window>=1,accuracy>=0.95` states."""
    found = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        match = re.fullmatch(r"(\w+)\s*(>=|<=|>|<)\s*([0-9.eE+-]+)", word)
        try:
            bound = float(match[3]) if match else 0.0
        except ValueError:
            match = None
        if match is None:
            raise SpecError(f"require {word!r}: write a measure, >=, <=, > or <, and a number, as window>=1")
        if match[1] not in MEASURES:
            raise SpecError(f"require {word!r}: unknown measure {match[1]!r}: {nearest(match[1], MEASURES)}")
        found.append(Requirement(match[1], match[2], bound))
    return found


def missed(required: Sequence[Requirement], records: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the probed mixer misses, on every task and at every depth."""
    own = [record for record in records if record["probed"]]
    return [text for record in own for one in required if (text := one.missed(record))]
