"""Whether roundings decide how runs end at large learning rates: a table, in half an hour on one CPU core.

    python benchmarks/roundings.py [--variant float32|loss|products|stream] [--folder results/roundings]

MQAR (16, 4) with 64 tokens, one layer of attention with a convolution on k, width 32; 3,000 steps of batch 32 at a constant rate,
three rates, eight seeds; each variant trains the same runs. A row has the accuracies at the end, seed by seed. Interrupted,
the same command continues.
"""

import argparse
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor

from recollect.models.model import Model
from recollect.ops import answer_loss
from recollect.store.frames import runs_frame
from recollect.store.store import Store
from recollect.study.run import run
from recollect.study.spec import Study

VARIANTS = {
    "float32": "nothing is rounded",
    "loss": "slopes of the loss off by 1e-6, as they come from a log-sum-exp rounded to float32",
    "products": "what linear maps take and give is rounded to bfloat16, and so are its gradients",
    "stream": "the same, and the residual stream",
}
STUDY = Study(
    name="roundings",
    task={"kind": "mqar", "length": 16, "pairs": 4, "vocab": 64},
    model={"mixer": {"kind": "attention", "conv": "k"}, "width": 32, "layers": 1},
    train={
        "lr": "logspace(3.16e-3, 3.16e-2, 3)", "seed": list(range(1, 9)), "steps": 3000, "batch": 32, "schedule": "constant",
        "weight_decay": 0.1, "eval_every": 100, "eval_rows": 128, "test_rows": 500,
    },
)  # fmt: skip


class Rounded(torch.autograd.Function):
    """A tensor, and its gradient, rounded to bfloat16."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.bfloat16().float()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0].bfloat16().float()


class CoarseLoss(torch.autograd.Function):
    """Cross-entropy with shares of 2^(logit log2(e) - l), l rounded to float32."""

    generate_vmap_rule = True

    @staticmethod
    def forward(logits: Tensor, answers: Tensor) -> Tensor:
        return logits.logsumexp(-1) - logits.gather(-1, answers[..., None])[..., 0]

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        logits, answers = ctx.saved_tensors
        log2e = 1.4426950408889634
        rounded = (logits.logsumexp(-1) * log2e).double()
        share = torch.exp2((logits.double() * log2e - rounded[..., None]).float())
        own = torch.zeros_like(share).scatter(-1, answers[..., None], 1.0)
        return (share - own) * grads[0][..., None], None


@contextmanager
def rounding(variant: str) -> Iterator[None]:
    """Models are computed so, meanwhile."""
    short: Callable[[Tensor], Tensor] = Rounded.apply  # pyright: ignore[reportAssignmentType]
    linear, add, embed = F.linear, Model._add, Model._embed

    def product(x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
        return short(linear(short(x), short(w), None if b is None else short(b)))

    with ExitStack() as patches:
        if variant == "loss":
            patches.enter_context(patch.object(answer_loss, "cross_entropy", CoarseLoss.apply))
        if variant in ("products", "stream"):
            patches.enter_context(patch.object(F, "linear", product))
        if variant == "stream":
            patches.enter_context(patch.object(Model, "_add", lambda *given: short(add(*given))))
            patches.enter_context(patch.object(Model, "_embed", lambda *given: short(embed(*given))))
        yield


def main() -> None:
    """Train what is missing, then print the table."""
    parser = argparse.ArgumentParser(description="Whether roundings decide how runs end at large learning rates.")
    parser.add_argument(
        "--variant", action="append", choices=VARIANTS, help="may be given several times; left out: all"
    )
    parser.add_argument("--folder", type=Path, default=Path("results/roundings"))
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for variant in chosen.variant or VARIANTS:
        store = Store(chosen.folder / f"{variant}.sqlite", create=True)
        with rounding(variant):
            run(STUDY, store=store, device="cpu", workers=1)
        for rate, runs in runs_frame(store, STUDY.name).sort_values("train.seed").groupby("train.lr"):
            each = " ".join(f"{accuracy:.3f}" for accuracy in runs["accuracy"])
            rows.append(f"| {rate:.1e} | {VARIANTS[variant]} | {each} | {(runs['accuracy'] < 0.95).sum()} |")
    print("\n| rate | what is rounded | accuracy of each seed | below 0.95 |\n|---|---|---|---|", *rows, sep="\n")


if __name__ == "__main__":
    main()
