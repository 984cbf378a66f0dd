"""A learning-rate sweep from Python: runs, a table, a picture.

    python examples/sweep.py [--folder results]

What is done already is not run again, and a study that was stopped goes on.
"""

import argparse
from pathlib import Path

from recollect import Study
from recollect.analysis.window import windows
from recollect.figures.style import save
from recollect.figures.window import window_caption, window_figure


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
    frame = study().run(device="auto", store=folder / "store.sqlite").results()  # a pandas frame, one row a run
    print(frame[["configuration", "train.lr", "train.seed", "status", "step", "accuracy"]].to_string(index=False))
    print(windows(frame)[["configuration", "best", "decades", "low", "high"]].to_string(index=False))
    paths = save(window_figure(frame, "a small sweep", window_caption(frame)), folder / "sweep" / "window")
    print(f"The picture: {paths[0]}")


if __name__ == "__main__":
    main()
