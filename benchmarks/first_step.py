"""How long a user waits: for the first step of each shape, its compiled step, the first measurement, and the end.

python benchmarks/first_step.py                           the shapes of okpekpe2025/fig1 at scale small, caches empty, then filled
python benchmarks/first_step.py --whole                   trains all of it, caches empty; when did the first measurement come?
python benchmarks/first_step.py --whole --cache FOLDER    the same with the caches in FOLDER, which it fills: call it twice

Each pass over the shapes is a process of its own.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main() -> None:
    """Measure what was asked for, and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("item", nargs="?", default="okpekpe2025/fig1", help="PAPER/ITEM")
    parser.add_argument("--scale", default="small")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--whole", action="store_true", help="train the whole item")
    parser.add_argument("--cache", default="", help="the folder of compiled code; left out: an empty one")
    parser.add_argument("--once", action="store_true", help="one pass over the shapes, in this process")
    given = parser.parse_args()
    os.environ["RECOLLECT_CACHE"] = given.cache or os.environ.get("RECOLLECT_CACHE") or tempfile.mkdtemp()
    if given.whole:
        whole(given.item, given.scale, given.device, given.workers)
    elif given.once:
        shapes(given.item, given.scale, given.device)
    else:
        print(f"{'caches':<8}{'shape':<40}{'runs':>6}{'first step, s':>16}{'compiled step, s':>18}", flush=True)
        for caches in ("empty", "filled"):
            words = [given.item, "--scale", given.scale, "--device", given.device, "--once"]
            made = subprocess.run([sys.executable, __file__, *words], check=True, capture_output=True, text=True)
            print("".join(f"{caches:<8}{line}\n" for line in made.stdout.splitlines()), end="", flush=True)


def shapes(item: str, scale: str, device: str) -> None:
    """A line per shape: seconds to its first step, and to its first compiled step."""
    import torch

    from recollect.papers.reproduce import chosen, grids_of
    from recollect.study.packing import GPU_COHORT, pack
    from recollect.study.spec import distinct
    from recollect.train.cohort import Cohort
    from recollect.train.device import choose_device
    from recollect.train.speed.compile import allowed

    where = torch.device(choose_device(device))
    _, items, size = chosen(item, scale)
    for runs in pack(distinct([grid.runs for grid in grids_of(items, size)]), GPU_COHORT):
        began = time.perf_counter()
        cohort = Cohort(runs, where)
        first = step(cohort, 0, began)
        compiled = float("nan")
        if allowed(where):
            began = time.perf_counter()
            torch.compiler.reset()
            cohort.compile()
            compiled = step(cohort, 1, began)
        print(f"{runs[0].model.title[:38]:<40}{len(runs):>6}{first:>16.1f}{compiled:>18.1f}", flush=True)


def step(cohort, number: int, began: float) -> float:
    """Seconds since `began` when a step is done."""
    cohort.advance(number)
    cohort.members.sums[0, 0].item()  # waits for the device
    return time.perf_counter() - began


def whole(item: str, scale: str, device: str, workers: int) -> None:
    """Train the item, and say when the first measurement came and how long all of it took."""
    began = time.perf_counter()
    from recollect.papers.reproduce import chosen, grids_of
    from recollect.study.progress import Progress
    from recollect.study.run import run
    from recollect.train.events import Measured

    seen: dict[str, float] = {}

    def watch(cohort, event) -> None:
        if isinstance(event, Measured) and cohort[0].model.title not in seen:
            seen[cohort[0].model.title] = time.perf_counter() - began
            print(f"first measurement of {cohort[0].model.title} after {seen[cohort[0].model.title]:.0f} s", flush=True)

    _, items, size = chosen(item, scale)
    with tempfile.TemporaryDirectory() as folder:
        outcome = run(
            grids_of(items, size), store=Path(folder, "store.sqlite"), device=device, workers=workers, sinks=[watch],
            progress=Progress(),
        )  # fmt: skip
    print(f"{outcome.runs} runs in {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
