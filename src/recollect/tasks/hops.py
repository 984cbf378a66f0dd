"""Multi-hop recall (after "Depo" of Allen-Zhu 2025, "Physics of Language Models: part 4.1").

The names of a row have a random cyclic order; the context has every pair (name, next name), in random order. A question is a
number of hops k and a name. The answer, the k-th name after it, is read at the name and is never fed. Here names are single
tokens; in Depo they have several, and its answers are fed.
"""

from typing import Literal

import torch
from pydantic import Field

from recollect.rng import Stream
from recollect.tasks.base import MOST, AnswersTask, Batch


class Hops(AnswersTask):
    """Multi-hop recall: the name k steps after a given one."""

    kind: Literal["hops"] = "hops"
    nodes: int = Field(default=32, ge=2, le=MOST // 4)
    """The most names in a row (N); every test row has that many."""
    min_nodes: int = Field(default=3, ge=2)
    """The fewest names in a row. A row has n names with a probability proportional to 1 / (n + sqrt N)."""
    hops: int = Field(default=4, ge=1, le=MOST // 4)
    """The most hops in a question; their numbers are uniform from 1 up."""
    questions: int = Field(default=10, ge=1, le=MOST // 4)
    """Questions in a row."""
    names: int = Field(default=64, ge=2, le=MOST // 2)
    """Different names."""

    def _refusal(self) -> str | None:
        if not self.min_nodes <= self.nodes <= self.names:
            sizes = f"min_nodes {self.min_nodes}, nodes {self.nodes} and names {self.names}"
            return f"{sizes} must not decrease in this order"
        return None

    @property
    def row_length(self) -> int:
        return 2 * (self.nodes + self.questions)

    @property
    def chance(self) -> float:
        """The accuracy of guessing any name of the row."""
        return 1.0 / self.nodes

    def lexicon(self) -> dict[str, range]:
        return {"·": range(1), "{}:": range(1, self.hops + 1), "n{}": range(self.names)}

    def for_test(self) -> "Hops":
        return self.changed(min_nodes=self.nodes)

    def sample(self, stream: Stream) -> Batch:
        N, device = self.nodes, stream.device
        sizes = torch.arange(self.min_nodes, N + 1, dtype=torch.float64)
        size = self.min_nodes + stream.race(1 / (sizes + N**0.5), 1)  # (rows, 1)
        label = torch.arange(N, device=device)
        # labels 0 .. size-1 are the names in their cyclic order
        name = 1 + self.hops + stream.bijection(self.names)(label)  # (rows, N)
        written = stream.order(N)
        written = written.gather(1, (written >= size).long().argsort(dim=1, stable=True))  # the labels below size first
        start = (stream.uniform(self.questions) * size).long()
        hops = stream.integers(self.questions, 1, self.hops + 1)

        inside = label < size
        follower = ((written + 1) % size).clamp(max=N - 1)
        pairs = torch.stack([name.gather(1, written), name.gather(1, follower)], dim=2)
        asked = torch.stack([hops, name.gather(1, start)], dim=2).flatten(1)  # (rows, 2 questions)
        tokens = pairs.where(inside[..., None], 0).flatten(1)
        tokens = torch.cat([tokens, torch.zeros_like(asked)], dim=1)
        column = 2 * size + torch.arange(2 * self.questions, device=device)
        tokens = tokens.scatter(1, column, asked)

        answer = (start + hops) % size
        pair = written.argsort(dim=1)  # the number of each label's pair
        source = 2 * pair.gather(1, (answer - 1) % size) + 1
        tags = {"hops": hops, "nodes": size}
        return Batch(tokens, column[:, 1::2], name.gather(1, answer), source=source, tags=tags)
