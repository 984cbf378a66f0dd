"""What the whole of Okpekpe & Orvieto costs on NVIDIA H200s, by width, as the cost model estimates it (study/cost.py).

Every run of every item at scale `paper`, each once, in bfloat16; and as many hours for the paper's 3,000 runs, were they spread
over widths, models and settings like these.

    python benchmarks/cost.py
"""

from collections import defaultdict

from recollect.papers.okpekpe2025 import PAPER
from recollect.study.cost import gpu_seconds

THEIRS = 3000
MEMBERS = 51
"""Runs of a cohort: 17 rates, 3 seeds."""
GPUS = (1, 8, 64)


def main() -> None:
    """Print the table."""
    runs = {run.id: run for item in PAPER.items for study in item.studies("paper") for run in study.runs()}
    seconds: dict[str, float] = {}
    hours, counts = defaultdict(float), defaultdict(int)
    for run in runs.values():
        if run.shape not in seconds:
            train = run.train.changed(precision="bfloat16")
            members = MEMBERS if run.model.width <= 512 else 1
            seconds[run.shape] = gpu_seconds(run.model_copy(update={"train": train}), members)
        hours[run.model.width] += seconds[run.shape] / 3600
        counts[run.model.width] += 1
    share = THEIRS / len(runs)
    print("| width | runs | GPU hours | hours for 3,000 runs in all |" + "".join(f" days on {n} |" for n in GPUS))
    print("|" + "---|" * (4 + len(GPUS)))
    rows = [(str(width), counts[width], hours[width]) for width in sorted(hours)]
    for name, count, taken in [*rows, ("all", len(runs), sum(hours.values()))]:
        days = "".join(f" {taken / 24 / n:,.2f} |" for n in GPUS)
        print(f"| {name} | {count:,} | {taken:,.1f} | {taken * share:,.1f} |{days}")


if __name__ == "__main__":
    main()
