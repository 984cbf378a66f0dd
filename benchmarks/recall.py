"""Which mixers learn to recall, with one layer and with two, on a small MQAR: a table, in a quarter of an hour on two CPU cores.

    python benchmarks/recall.py [--store results/recall.sqlite] [--workers 2] [--batch 32] [--steps 700]

MQAR (32, 4) with 64 tokens, width 64, MLPs, head not tied, batch 32, at most 700 steps, ends at 95 %; two learning rates
(1e-3 and 3e-3 for attention, 3e-3 and 1e-2 for the others), one seed. Each cell is the best rate's: steps to 95 %, or the
accuracy reached. Interrupted, the same command continues.
"""

import argparse
import time
from pathlib import Path

from recollect.store.frames import runs_frame
from recollect.store.store import Store
from recollect.study.run import run
from recollect.study.spec import Study

ATTENTION = [{"kind": "attention", **({"conv": conv} if conv else {})} for conv in ("", "k", "v", "q", "qkv")]
MAMBA = ["mamba", {"kind": "mamba", "conv": False}, {"kind": "mamba", "gate": False}, "s6"]
OTHERS = [
    "mamba2", "deltanet", "gated_deltanet", "linear_attention", {"kind": "linear_attention", "feature": "taylor"}, "based",
    "base_conv", "h3", "hyena", "rwkv", "rwkv6", "rwkv7", "gla", "retnet", "lstm",
]  # fmt: skip
CLAIMS = {
    ("attention", 1): False, ("attention", 2): True, ("attention(conv=k)", 1): True, ("attention(conv=v)", 1): True,
    ("attention(conv=q)", 1): False, ("attention(conv=qkv)", 1): True, ("mamba", 1): True, ("mamba(conv=False)", 1): True,
    ("mamba(gate=False)", 1): True, ("s6", 1): True,
}  # fmt: skip
"""What Okpekpe & Orvieto's Tables 2 and 3 and Figure 2 predict: solves, or does not."""


def study(batch: int, steps: int) -> Study:
    """Every mixer, both depths. Attention gets rotary positions and smaller rates: what it learns quickest with here."""
    base = {"width": 64, "layers": [1, 2], "tie": False}
    models = [{"mixer": ATTENTION, "positions": "rotary", **base}, {"mixer": [*MAMBA, *OTHERS], **base}]
    return Study(
        name="recall",
        task={"kind": "mqar", "length": 32, "pairs": 4, "vocab": 64},
        zip=[{"model": models, "train.lr": [[1e-3, 3e-3], [3e-3, 1e-2]]}],
        train={
            "seed": 1,
            "steps": steps,
            "batch": batch,
            "eval_every": 50,
            "eval_rows": 128,
            "test_rows": 1024,
            "stop_at": 0.95,
        },
    )


def cell(group) -> str:
    """The best rate of one model: steps to 95 %, or the accuracy reached."""
    solved = group[group["status"] == "solved"]
    return f"{solved['step'].min()} steps" if len(solved) else f"{group['accuracy'].max():.2f}"


def verdict(model: str, layers: int, group) -> str:
    """How the result stands to the claim, where there is one."""
    if (model, layers) not in CLAIMS:
        return ""
    claimed, solves = CLAIMS[model, layers], bool((group["status"] == "solved").any())
    words = {True: "solves", False: "does not solve"}
    return f"{words[claimed]}: " + ("as seen here" if claimed == solves else "NOT seen here")


def main() -> None:
    """Train what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", type=Path, default=Path("results/recall.sqlite"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=700)
    chosen = parser.parse_args()
    store = Store(chosen.store, create=True)
    started = time.perf_counter()
    run(study(chosen.batch, chosen.steps), store=store, device="cpu", workers=chosen.workers)
    frame = runs_frame(store, "recall")
    minutes, wall = frame["seconds"].sum() / 60, (time.perf_counter() - started) / 60
    print(f"\n{len(frame)} runs, {minutes:.0f} minutes of one core, {wall:.0f} minutes with {chosen.workers} workers\n")
    print("| model | 1 layer | 2 layers | the paper (1 layer; attention also 2) |\n|---|---|---|---|")
    for model in dict.fromkeys(frame["model"]):
        groups = {layers: frame[(frame["model"] == model) & (frame["model.layers"] == layers)] for layers in (1, 2)}
        claims = "; ".join(filter(None, (verdict(model, layers, group) for layers, group in groups.items())))
        print(f"| {model} | {cell(groups[1])} | {cell(groups[2])} | {claims} |")


if __name__ == "__main__":
    main()
