"""How fast tasks are sampled on this machine: `python benchmarks/sampling.py`.

First 100,000 MQAR rows at (512, 64), kept in memory as a training set would be, with the peak of the process's memory;
then every other task's rows per second.
"""

import argparse
import resource
import sys
import time

import torch

from recollect import rng
from recollect.tasks import MQAR, TASKS, Mixture, Task

_CHUNK = 1000  # rows at a time: intermediate results stay in the cache


def fill(task: Task, rows: int) -> torch.Tensor:
    """A training set's tokens, as small integers."""
    tokens = torch.empty(rows, task.row_length, dtype=torch.int16 if task.vocabulary < 2**15 else torch.int32)
    for start in range(0, rows, _CHUNK):
        numbers = torch.arange(start, min(start + _CHUNK, rows))
        tokens[start : start + len(numbers)] = task.sample(rng.stream(0, "train", numbers)).tokens
    return tokens


def peak_gigabytes() -> float:
    """The most memory this process has held so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**30 if sys.platform == "darwin" else 2**20)


def rows_per_second(task: Task, seconds: float) -> float:
    """Rows sampled in a second, `_CHUNK` at a time."""
    task.batch(0, "train", _CHUNK)
    start, rows = time.perf_counter(), 0
    while (taken := time.perf_counter() - start) < seconds:
        task.batch(rows, "train", _CHUNK)
        rows += _CHUNK
    return rows / taken


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description="How fast tasks are sampled on this machine.")
    parser.add_argument("--rows", type=int, default=100_000, help="MQAR rows to draw")
    parser.add_argument("--seconds", type=float, default=1.0, help="time given to each other task")
    given = parser.parse_args()

    task, before = MQAR(length=512, pairs=64), peak_gigabytes()
    fill(task, _CHUNK)
    start, busy = time.perf_counter(), time.process_time()
    fill(task, given.rows)
    taken, busy = time.perf_counter() - start, time.process_time() - busy
    print(f"mqar (512, 64), {given.rows:,} rows, {torch.get_num_threads()} threads: {taken:.2f} s, ", end="")
    print(f"{busy:.2f} s of processor time, peak {peak_gigabytes():.2f} GB, {before:.2f} GB before the first row")

    mixture = Mixture(parts=tuple(MQAR(length=length, pairs=pairs) for length, pairs in ((64, 4), (128, 8), (256, 16))))
    tasks = [mixture if kind == "mixture" else TASKS.find(kind)() for kind in TASKS]
    print(f"{'task':<16}{'row length':>12}{'rows / s':>12}{'tokens / s':>14}")
    for task in tasks:
        speed = rows_per_second(task, given.seconds)
        print(f"{task.kind:<16}{task.row_length:>12}{speed:>12,.0f}{speed * task.row_length:>14,.0f}")


if __name__ == "__main__":
    main()
