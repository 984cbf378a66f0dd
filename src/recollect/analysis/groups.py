"""Rows of a frame that belong together."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import pandas as pd


def groups(frame: pd.DataFrame, by: Sequence[str]) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """The groups of rows with equal values in some columns, those values by name; in the order of their first rows."""
    if frame.empty:
        return
    for values, rows in frame.groupby(list(by), sort=False, dropna=False):
        yield dict(zip(by, cast(tuple, values), strict=True)), rows
