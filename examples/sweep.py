"""A learning-rate sweep from Python: runs, a table, a picture.

    python examples/sweep.py [--folder results]

Runs that the store already has are not trained again, and a study that was stopped continues.
"""

import argparse
from pathlib import Path

from recollect import Study


def study() -> Study:
    """12 runs: any field of task, model or train may be a list."""
    return Study(
        name="sweep",
        task={"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32},
        model={"mixer": [{"kind": "attention", "conv": "k"}, "deltanet"], "width": 32, "layers": 1, "tie": False},
        train={
            "lr": [0.003, 0.01, 0.03], "seed": [1, 2], "steps": 100, "batch": 32, "eval_every": 25, "eval_rows": 64,
            "test_rows": 256, "stop_at": 0.99,
        },
    )  # fmt: skip


def main() -> None:
    """Run, print, draw."""
    parser = argparse.ArgumentParser(description="A small learning-rate sweep.")
    parser.add_argument("--folder", type=Path, default=Path("results"))
    folder = parser.parse_args().folder
    outcome = study().run(store=folder / "store.sqlite")  # in a notebook the outcome displays as a table
    print(outcome.results().to_string(index=False))
    print(outcome.windows()[["configuration", "best", "best_lr", "decades", "low", "high"]].to_string(index=False))
    picture = folder / "sweep" / "window.png"
    picture.parent.mkdir(parents=True, exist_ok=True)
    outcome.picture("a small sweep").savefig(picture)
    print(f"The picture: {picture}")


if __name__ == "__main__":
    main()
