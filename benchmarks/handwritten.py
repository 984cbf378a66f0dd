"""A member's step on a CPU beside a hand-written PyTorch step and a plain loop over our own model, in one process.

python benchmarks/handwritten.py [--rows 1,2,5] [--cohorts 1,4,12] [--rounds 7]

The hand-written step is what people write for attention: nn.Linear, scaled_dot_product_attention, F.gelu, fused AdamW, logits at
answers only. The plain loop has our model and torch.optim.AdamW. All take turns, so that a busy machine slows all alike, and the
fastest round of each counts: milliseconds of processor time per run and step, one thread.
"""

import argparse
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recollect.bench.timing import Shape
from recollect.models.model import build
from recollect.train.cohort import Cohort
from recollect.train.data import sample, training_rows

ROWS = {
    1: Shape("attention", batch=64),
    2: Shape("attention", batch=64, vocab=256),
    3: Shape("mamba", batch=64, vocab=256),
    4: Shape("deltanet", batch=64, vocab=256),
    5: Shape("attention", batch=64, vocab=64, width=32, length=32, layers=1),
}
Step = Callable[[], object]


class Block(nn.Module):
    """Attention with one head, and an MLP."""

    def __init__(self, width: int):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norms[0](x)).chunk(3, dim=-1)
        x = x + self.out(F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None], is_causal=True)[:, 0])
        return x + self.mlp(self.norms[1](x))


class Handwritten(nn.Module):
    """A Transformer with learned positions and a tied head."""

    def __init__(self, vocab: int, width: int, layers: int, length: int):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(vocab, width), nn.Embedding(length, width)
        self.blocks, self.norm = nn.Sequential(*(Block(width) for _ in range(layers))), nn.LayerNorm(width)

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        x = self.blocks(self.embedding(tokens) + self.positions.weight[: tokens.shape[1]])
        x = x.gather(1, positions[..., None].expand(-1, -1, x.shape[-1]))
        return F.linear(self.norm(x), self.embedding.weight)


def loop(setting: Shape, model: nn.Module, fused: bool) -> Step:
    """Steps of one model, on the rows that a run of ours sees."""
    run, seeds, numbers = setting.runs(1)[0], torch.tensor([0]), iter(range(10**9))
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, fused=fused)

    def step() -> None:
        rows = training_rows(run.train, seeds, next(numbers))
        batch = sample(run.task, seeds, "train", rows).map(lambda x: x[0])
        logits = model(batch.tokens, batch.positions)
        optimiser.zero_grad()
        F.cross_entropy(logits.flatten(0, 1), batch.answers.flatten()).backward()
        optimiser.step()

    return step


def cohort(setting: Shape, members: int) -> Step:
    """Steps of a cohort."""
    trained, numbers = Cohort(setting.runs(members), torch.device("cpu")), iter(range(10**9))
    return lambda: trained.advance(next(numbers))


def steps(setting: Shape, cohorts: list[int]) -> dict[str, tuple[Step, int]]:
    """What is compared, by name: a step, and of how many members it is."""
    run, found = setting.runs(1)[0], {}
    if setting.mixer == "attention":
        made = Handwritten(run.task.vocabulary, setting.width, setting.layers, run.row_length)
        found["hand-written"] = loop(setting, made, fused=True), 1
    found["plain loop"] = loop(setting, build(run.model, run.task.vocabulary, run.row_length, 0), fused=False), 1
    return found | {f"cohort of {members}": (cohort(setting, members), members) for members in cohorts}


def main() -> None:
    """Print a line per row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="1,2,3,4,5")
    parser.add_argument("--cohorts", default="1,4,12")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for row in map(int, given.rows.split(",")):
        compared = steps(ROWS[row], [int(n) for n in given.cohorts.split(",")])
        fastest = dict.fromkeys(compared, float("inf"))
        for step, _ in compared.values():
            step()
        for _ in range(given.rounds):
            for name, (step, members) in compared.items():
                calls = max(1, (60 if row == 5 else 6) // members)
                began = time.thread_time()
                for _ in range(calls):
                    step()
                taken = (time.thread_time() - began) / calls / members * 1000
                fastest[name] = min(fastest[name], taken)
        print(f"row {row}: " + ", ".join(f"{name} {ms:.1f}" for name, ms in fastest.items()), flush=True)


if __name__ == "__main__":
    main()
