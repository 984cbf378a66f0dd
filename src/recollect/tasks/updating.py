"""Updating recall: MQAR in which some keys are bound again, and the last value counts.

The context is K + `updates` writes `k v` in random order: one of every key, and `updates` more of random keys, all
values distinct. The query region is MQAR's.
"""

from typing import Literal

import torch
from pydantic import Field, model_validator

from recollect.rng import Stream
from recollect.spec import SpecError
from recollect.tasks.base import Batch
from recollect.tasks.mqar import MQAR, draw_pairs


class Updating(MQAR):
    """Updating recall: keys are bound again, the last value counts."""

    kind: Literal["updating"] = "updating"
    updates: int = Field(default=4, ge=0)
    """Writes beyond each key's first."""

    @model_validator(mode="after")
    def _updates_fit(self) -> "Updating":
        need = 2 * (self.pairs + self.updates) + 2 * self.pairs
        if need > self.length:
            raise SpecError(
                f"updating: pairs {self.pairs} and updates {self.updates} do not fit length {self.length}: "
                f"4 x pairs + 2 x updates = {need} must be at most length"
            )
        return self

    def sample(self, stream: Stream) -> Batch:
        K, writes = self.pairs, self.pairs + self.updates
        token, keys, values = draw_pairs(stream, K, writes, self.vocab, self.roles)
        each = torch.arange(K, device=stream.device).expand(stream.rows, -1)
        written = torch.cat([each, stream.integers(self.updates, 0, K)], dim=1).gather(1, stream.order(writes))
        write = torch.arange(writes, device=stream.device).expand(stream.rows, -1)
        last = torch.zeros_like(each).scatter_reduce_(1, written, write, "amax")  # (rows, K)
        batch = self._row(stream, token, keys, values, written, last)
        times = torch.zeros_like(each).scatter_add_(1, written, torch.ones_like(written))
        batch.tags["writes"] = times.gather(1, batch.tags["key"])
        return batch
