"""Fits the constants of the cost model (study/cost.py) to the times of `recollect bench` on an H200 in benchmarks/h200.

    python benchmarks/fit_cost.py

The model is linear in T, 1/P, 1/R and each mixer's 1/B, so that relative errors are minimised by linear least squares.
"""

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np

from recollect.bench.timing import Shape
from recollect.study.cost import bytes_moved, work_of

FILES = ("attention.csv", "mixers.csv", "own.csv", "second.csv")
DIGITS = 3


class Fit(NamedTuple):
    """The constants by their names in study/cost.py, and the largest relative error."""

    step: float
    products: float
    rest: float
    mixers: dict[str, float]
    error: float


def times() -> list[tuple[Shape, int, float]]:
    """The shape, members, and seconds per run and step of each measured cohort."""
    found = []
    for name in FILES:
        for row in csv.DictReader((Path(__file__).parent / "h200" / name).read_text().splitlines()):
            numbers = {field: int(row[field]) for field in ("width", "length", "pairs", "batch", "layers")}
            setting = Shape(row["mixer"], **numbers, mlp=row["mlp"], precision=row["precision"])
            found.append((setting, int(row["members"]), float(row["ms"]) / 1e3))
    return [one for one in found if one[1] > 0]  # 0 members: the plain loop, one run at a time


def fit() -> Fit:
    """The constants, rounded to DIGITS."""
    measured = times()
    kinds = list(dict.fromkeys(setting.mixer for setting, _, _ in measured))
    rows = []
    for setting, members, seconds in measured:
        run = setting.runs(2)[0]
        rest, mixers = bytes_moved(run)
        costs = [1 / members, work_of(run).step_flops, rest, *(mixers.get(kind, 0.0) for kind in kinds)]
        rows.append(np.array(costs) / seconds)
    matrix = np.array(rows)
    scale = matrix.max(axis=0)
    solved = np.linalg.lstsq(matrix / scale, np.ones(len(matrix)), rcond=None)[0] / scale
    step, products, rest, *each = (float(f"{x:.{DIGITS}g}") for x in (solved[0], *(1 / solved[1:])))
    error = float(np.abs(matrix @ solved - 1).max())
    return Fit(step, products, rest, dict(zip(kinds, each, strict=True)), error)


def main() -> None:
    """Print the constants."""
    found = fit()
    print(f"STEP = {found.step:g}\nPRODUCTS = {found.products:g}\nREST = {found.rest:g}\nBYTES = {found.mixers}")
    print(f"largest relative error of {len(times())} times: {found.error:.1%}")


if __name__ == "__main__":
    main()
