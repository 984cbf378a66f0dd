"""How long a training step takes with each mixer, beside attention's, on this machine's CPU.

    python benchmarks/mixers.py [--threads 2] [--rounds 5] [--length 64]

A whole step (sampling, forward, backward, optimiser) of a 2-layer model with MLPs: cohort of 4, width 64, batch 32, MQAR
with 8,192 tokens. Every round times each mixer once, so that what else the machine does falls on all alike; the table gives
the fastest round of each.
"""

import argparse
import time

import torch

from recollect.mixers import MIXERS
from recollect.train.cohort import Cohort
from recollect.train.spec import RunSpec

STEPS = 3


def cohort(mixer: str, length: int) -> Cohort:
    """Four members that differ in rate and seed."""
    task = {"kind": "mqar", "length": length, "pairs": length // 16}
    model = {"mixer": mixer, "width": 64, "layers": 2}
    runs = [
        RunSpec(task=task, model=model, train={"lr": lr, "seed": seed, "steps": 1000, "batch": 32})
        for lr in (1e-3, 3e-3)
        for seed in (1, 2)
    ]
    return Cohort(runs, torch.device("cpu"))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--length", type=int, default=64)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    cohorts = {mixer: cohort(mixer, chosen.length) for mixer in MIXERS}
    fastest = dict.fromkeys(cohorts, float("inf"))
    for round_ in range(chosen.rounds + 1):  # the first warms up
        for mixer, members in cohorts.items():
            started = time.perf_counter()
            for i in range(STEPS):
                members.advance(round_ * STEPS + i)
            if round_:
                fastest[mixer] = min(fastest[mixer], (time.perf_counter() - started) / STEPS)
    print(
        f"torch {torch.__version__}, {chosen.threads} threads, length {chosen.length}, fastest of {chosen.rounds} rounds\n"
    )
    print("| mixer | ms a step of 4 members | over attention |\n|---|---|---|")
    for mixer, seconds in sorted(fastest.items(), key=lambda item: item[1]):
        print(f"| {mixer} | {1e3 * seconds:.1f} | {seconds / fastest['attention']:.2f} |")


if __name__ == "__main__":
    main()
