"""Snapshots of embeddings during training, at equal shares of each run's own length.

The end of a run is not known in advance (it may be solved early), so more are held than are saved: as the run continues, every
second one is dropped. With `snapshots: 4`, 8 to 16 evenly spaced ones are held, and those saved are at most a sixteenth of
the run away from 25, 50 and 75 %; exactly there if a run goes its whole length. Each records its step.
"""

from collections.abc import Callable, Sequence

import safetensors.torch
import torch
from torch import Tensor

from recollect.tasks.base import Task
from recollect.train.spec import TrainSpec

TABLES = {"embedding.weight": "input", "head.weight": "output"}
"""Parameters that are embeddings, and what they are called; a tied head has none of its own."""
FINEST = 64
"""Times at which embeddings may be recorded, per snapshot requested."""
HELD = 4
"""The most embeddings that are held, per snapshot requested."""

Tables = dict[str, Tensor]
"""By name: (members, tokens, width)."""


class Album:
    """The embeddings of a cohort's members so far, by moment; on the CPU."""

    def __init__(self, spec: TrainSpec, task: Task):
        self.asked, self.total, self.tokens = spec.snapshots, spec.total_steps, task.remembered
        halvings = min(self.total // max(1, self.asked), FINEST).bit_length() - 1
        self.moments = self.asked * 2 ** max(0, halvings)
        self.held: dict[int, tuple[int, Tables]] = {}  # by moment: the step, and what was taken there

    def take(self, params: Callable[[], Tables], step: int) -> None:
        """Record the embeddings after this step if it is one of the moments; else `params` is not called."""
        moment, before = (at * self.moments // self.total for at in (step, step - 1))
        apart = min(self.held, default=1)
        if not self.asked or moment == before or moment % apart:
            return
        self.held[moment] = step, self.of(params())
        if len(self.held) > self.asked * HELD:
            self.held = {at: taken for at, taken in self.held.items() if at % (2 * apart) == 0}

    def of(self, params: Tables) -> Tables:
        """The embeddings in these parameters."""
        rows = slice(self.tokens.start, self.tokens.stop)
        return {name: params[path][:, rows].float().cpu().clone() for path, name in TABLES.items() if path in params}

    def kept(self, params: Tables, step: int, member: int) -> list[tuple[float, int, bytes]]:
        """What is saved of a member that ends at this step: share of its length, step, and the tables as safetensors."""
        if not self.asked:
            return []
        taken = [*self.held.values(), (step, self.of(params))]
        shares = [i / self.asked for i in range(1, self.asked + 1)]
        nearest = [min(taken, key=lambda at, share=share: abs(at[0] - share * step)) for share in shares[:-1]]
        kept = [*nearest, taken[-1]]
        return [
            (share, at, safetensors.torch.save({name: table[member].contiguous() for name, table in tables.items()}))
            for share, (at, tables) in zip(shares, kept, strict=True)
        ]

    def select(self, members: Sequence[int]) -> None:
        index = torch.tensor(members, dtype=torch.int64)
        for _, tables in self.held.values():
            for name in tables:
                tables[name] = tables[name][index]

    def tensors(self) -> Tables:
        """All that is held, by a name with moment, step and table: for a checkpoint."""
        return {
            f"album.{moment}.{step}.{name}": table
            for moment, (step, tables) in self.held.items()
            for name, table in tables.items()
        }

    def restore(self, saved: Tables, members: Sequence[int]) -> None:
        """Hold what a checkpoint has of these members."""
        self.held = {}
        for path, table in saved.items():
            if path.startswith("album."):
                _, moment, step, name = path.split(".")
                self.held.setdefault(int(moment), (int(step), {}))[1][name] = table[members]
