"""Times `results`, `status`, `report` and their like on a store of 20,000 runs with curves, made up without training.

    python benchmarks/large_store.py [--runs 20000] [--points 50] [--store results/large.sqlite] [--only status,results]

The store is made if the file is not there yet.
"""

import argparse
import math
import subprocess
import sys
import time
from pathlib import Path

from recollect.store.store import Store
from recollect.study.spec import Study
from recollect.train.events import Ended
from recollect.train.spec import RunSpec

COMMANDS: dict[str, list[str]] = {
    "status": ["status"],
    "results": ["results"],
    "results of a study": ["results", "large"],
    "summary": ["results", "large", "--summary"],
    "where": ["results", "large", "--where", "accuracy > 0.9", "--sort", "accuracy", "--limit", "20"],
    "csv": ["results", "large", "--to", "large.csv"],
    "plot": ["plot", "large", "--x", "width", "--lines", "mixer", "--to", "large.png"],
    "report": ["report", "large", "--to", "large.html"],
}


def study(runs: int) -> Study:
    """Four mixers, five widths, ten seeds, and as many rates as make so many runs."""
    return Study(
        name="large",
        task={"kind": "mqar", "length": 64, "pairs": 4, "vocab": 256},
        model={"mixer": ["attention", "mamba2", "deltanet", "base_conv"], "width": [16, 32, 64, 128, 256], "layers": 2},
        train={
            "lr": f"logspace(1e-5, 1e-1, {max(2, runs // 200)})",
            "seed": list(range(10)),
            "steps": 1000,
            "batch": 64,
        },
    )


def invented(run: RunSpec, points: int) -> Ended:
    """A result that looks like one: a curve that rises where the rate is near a best one that depends on the width."""
    distance = math.log10(run.train.lr * run.model.width) + 1.2 + 0.05 * (run.train.seed % 3)
    highest = 1 / (1 + math.exp(6 * (abs(distance) - 1)))
    curve = []
    for i in range(1, points + 1):
        step, accuracy = 1000 * i // points, highest / (1 + math.exp(8 - 16 * i / points))
        curve.append(
            {"step": step, "examples": 64 * step, "lr": run.train.lr, "accuracy": accuracy,
             "train_loss": 5.5 * (1 - accuracy) + 0.01, "train_accuracy": accuracy, "grad_norm": 1.0 - accuracy / 2,
             "test_loss": 5.6 * (1 - accuracy) + 0.02, "test_answers": accuracy, "test_rows": accuracy**4}
        )  # fmt: skip
    accuracy = curve[-1]["accuracy"]
    final = {"valid": accuracy, "loss": 1 - accuracy, "accuracy": accuracy, "answers": accuracy, "rows": accuracy**4}
    slices = [
        {"step": 1000, "tag": "gap", "values": [1, 2, 4, 8], "counts": [50] * 4, "right": [round(50 * accuracy)] * 4}
    ]
    return Ended(run, "finished", 1000, final, curve, slices, 12.5, 1000 * run.model.width, 64 * run.model.width)


def make(path: Path, runs: int, points: int) -> None:
    """Write the store."""
    asked = study(runs)
    found = asked.runs()
    with Store(path, create=True).writing() as writer:
        writer.add_study(asked.name, asked.to_yaml(), found)
        for first in range(0, len(found), 500):
            writer.add_results([invented(run, points) for run in found[first : first + 500]], "cpu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--points", type=int, default=50)
    parser.add_argument("--store", type=Path, default=Path("large.sqlite"))
    parser.add_argument("--only", default=",".join(COMMANDS))
    asked = parser.parse_args()
    if not asked.store.exists():
        began = time.perf_counter()
        make(asked.store, asked.runs, asked.points)
        size = asked.store.stat().st_size / 1e6
        print(f"made {asked.store}: {asked.runs} runs, {size:.0f} MB, {time.perf_counter() - began:.1f} s")
    for name in asked.only.split(","):
        words = [str(asked.store.parent / word) if word.startswith("large.") else word for word in COMMANDS[name]]
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "recollect.cli", *words, "--store", str(asked.store)], capture_output=True, text=True
        )
        seconds, lines = time.perf_counter() - began, len(done.stdout.splitlines())
        print(f"{name:<20} {seconds:6.2f} s  {lines:>6} lines  exit code {done.returncode} {done.stderr.strip()[:200]}")


if __name__ == "__main__":
    main()
