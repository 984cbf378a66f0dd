"""What a study of very many very short runs costs beside training.

    python benchmarks/overhead.py [runs]

Trains a study of 2,000 runs of about 20 ms each with the local executor, from the study file to the table of results, and
shows how much of the time was spent outside training: unfolding and naming the runs, packing, the store, the progress.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from recollect.store.frames import runs_frame
from recollect.store.store import Store
from recollect.study.executors import base
from recollect.study.progress import Progress
from recollect.study.run import run
from recollect.study.spec import Study

TRAIN = {"steps": 18, "batch": 8, "eval_every": 9, "eval_rows": 16, "test_rows": 32}


class Clock:
    """Stands in for `train` and measures the time inside it."""

    def __init__(self):
        self.train, self.inside = base.train, 0.0

    def __call__(self, *arguments) -> Iterator:
        events = self.train(*arguments)
        while True:
            started = time.perf_counter()
            event = next(events, None)
            self.inside += time.perf_counter() - started
            if event is None:
                return
            yield event


def main() -> None:
    """Print the share of the time that is not training."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    task = {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32}
    train = TRAIN | {"lr": f"logspace(1e-4, 1e-1, {runs // 20})", "seed": list(range(20))}
    grid = {"task": task, "model": {"width": 16, "layers": 1}}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.yaml"
        path.write_text(Study(name="short", **grid, train=train).to_yaml())
        warm = Study(name="warm", **grid, train=TRAIN)
        run(warm, store=Path(folder) / "warm.sqlite", device="cpu", workers=1, progress=False)
        base.train = clock = Clock()
        started = time.perf_counter()
        study, store = Study.load(path), Store(Path(folder) / "store.sqlite", create=True)
        run(study, store=store, device="cpu", workers=1, progress=Progress(Console(quiet=True)))
        frame = runs_frame(store, "short")
        total = time.perf_counter() - started
        assert len(frame) == runs
        print(
            f"{runs} runs of {1000 * clock.inside / runs:.1f} ms: {total:.1f} s, of which training {clock.inside:.1f} s"
        )
        print(f"outside training: {total - clock.inside:.2f} s, {(total - clock.inside) / total:.1%} of the time, "
              f"{1000 * (total - clock.inside) / runs:.2f} ms a run")  # fmt: skip


if __name__ == "__main__":
    main()
