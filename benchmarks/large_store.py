"""Times `results`, `status`, `report`, `serve` and their like on a store of 20,000 runs with curves, made up without training.

    python benchmarks/large_store.py [--runs 20000] [--points 50] [--store results/large.sqlite] [--only status,results]

The store is made if the file is not there yet. `serve` needs Chromium and the extras `serve` and `test`. Of the page it gives
seconds by the clock, which count the browser's own work too, and seconds of the server's processor.
"""

import argparse
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
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


def time_serve(store: Path) -> None:
    """Open the live page, choose filters and views, and print how long each takes until it is shown."""
    import re
    import shutil

    from playwright.sync_api import sync_playwright

    words = [sys.executable, "-m", "recollect.cli", "serve", str(store), "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as driver:
        assert server.stdout is not None
        address = re.search(r"http\S+", server.stdout.readline())
        assert address is not None, "the server did not start"
        flags = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
        page = driver.chromium.launch(executable_path=shutil.which("chromium"), args=flags).new_page()
        data = "document.querySelector('#chart .js-plotly-plot')?.data"

        def timed(name: str, act: Callable[[], object], shown: str) -> None:
            began, used = time.perf_counter(), processor_seconds(server.pid)
            act()
            page.wait_for_function(shown)
            seconds, used = time.perf_counter() - began, processor_seconds(server.pid) - used
            print(f"{name:<20} {seconds:6.2f} s  {used:6.2f} s of the server's processor")
            page.evaluate(f"window.before = {data}")

        for _ in range(3):
            timed("serve, first view", lambda: page.goto(address[0]), f"({data} || []).length > 0")
        for text in ("mamba2 width=32", "accuracy>0.9", "deltanet"):
            timed(f"serve, {text}", lambda text=text: page.fill("#filter", text), f"{data} !== window.before")
        page.fill("#filter", "")
        page.wait_for_timeout(3000)
        page.evaluate(f"window.before = {data}")
        for view in ("curves", "scaling", "heatmap", "tags"):
            act = lambda view=view: page.check(f"#views input[value={view}]", force=True)  # noqa: E731
            timed(f"serve, {view}", act, f"{data} !== window.before")
        server.terminate()


def processor_seconds(process: int) -> float:
    """Seconds of processor time that a process has used so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--points", type=int, default=50)
    parser.add_argument("--store", type=Path, default=Path("large.sqlite"))
    parser.add_argument("--only", default=",".join([*COMMANDS, "serve"]))
    asked = parser.parse_args()
    if not asked.store.exists():
        began = time.perf_counter()
        make(asked.store, asked.runs, asked.points)
        size = asked.store.stat().st_size / 1e6
        print(f"made {asked.store}: {asked.runs} runs, {size:.0f} MB, {time.perf_counter() - began:.1f} s")
    for name in asked.only.split(","):
        if name == "serve":
            time_serve(asked.store)
            continue
        words = [str(asked.store.parent / word) if word.startswith("large.") else word for word in COMMANDS[name]]
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "recollect.cli", *words, "--store", str(asked.store)], capture_output=True, text=True
        )
        seconds, lines = time.perf_counter() - began, len(done.stdout.splitlines())
        print(f"{name:<20} {seconds:6.2f} s  {lines:>6} lines  exit code {done.returncode} {done.stderr.strip()[:200]}")


if __name__ == "__main__":
    main()
