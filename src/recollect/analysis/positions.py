"""Accuracy by target position over training, and the serial-position effect (Murdock 1962; Pantazopoulos et al., figure 8).

Items at the beginning and the end of a list are recalled before those in the middle. Progress is relative to each run's own
length, as in the paper, because models end at different steps.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class SerialPosition:
    """How the ends of a sequence are learnt against its middle half, and how suddenly all of it is."""

    head_lead: float
    """The largest difference, at any time, between the mean accuracy of the first positions and that of the middle half."""
    tail_lead: float
    """The same of the last positions, at a time of their own."""
    rise: float
    """The share of training from a tenth of the final mean accuracy to nine tenths of it: small where learning is sudden."""


def position_matrix(slices: pd.DataFrame, points: int = 20) -> pd.DataFrame:
    """Accuracy by progress (rows: 1/points .. 1) and position (columns), over all runs in `slices`.

    Needs accuracy by tag at each measurement (`train.slices: always`). At each progress the last measurement up to
    there counts, or the first one; NaN where no row has that position as its target.
    """
    progress = np.arange(1, points + 1) / points
    if slices.empty:
        return pd.DataFrame(index=pd.Index(progress, name="progress"))
    chosen = slices.loc[slices["tag"] == "position"]
    positions = pd.RangeIndex(int(chosen["value"].max()) + 1 if len(chosen) else 0, name="position")
    counted, right = [], []
    for _, run in chosen.groupby("run", sort=False):
        tables = [
            run.pivot_table(index="step", columns="value", values=name, fill_value=0) for name in ("count", "right")
        ]
        steps = tables[0].index.to_numpy(float)
        rows = np.searchsorted(steps, progress * steps[-1] * (1 + 1e-12), side="right") - 1
        for table, into in zip(tables, (counted, right), strict=True):
            into.append(table.reindex(columns=positions, fill_value=0).to_numpy()[rows.clip(0)])
    hits, asked = (np.sum(frames, axis=0) for frames in (right, counted))
    with np.errstate(invalid="ignore"):
        return pd.DataFrame(hits / asked, pd.Index(progress, name="progress"), positions)


def serial_position(matrix: pd.DataFrame) -> SerialPosition:
    """What `position_matrix` shows of the ends (a tenth of the positions on either side) and the middle half."""
    n = matrix.shape[1]
    edge = max(1, round(0.1 * n))
    middle = matrix.iloc[:, n // 4 : n - n // 4].mean(axis=1)
    head, tail = (part.mean(axis=1) - middle for part in (matrix.iloc[:, :edge], matrix.iloc[:, n - edge :]))
    overall = matrix.mean(axis=1)
    tenth, most = (float(overall.index[(overall >= share * overall.iloc[-1]).to_numpy()][0]) for share in (0.1, 0.9))
    return SerialPosition(float(head.max()), float(tail.max()), most - tenth)
