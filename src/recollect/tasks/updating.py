"""Updating recall: MQAR in which some keys are bound again, and the last value counts.

The context is K + `updates` writes `k v`, and the query region is MQAR's.

    clean    one write of every key and `updates` more of any keys, in random order, all values distinct
    zoology  every key, then a block that binds `updates` of them again, as in Zoology's forgetting task

In the variant `zoology` a new value is drawn from all but one: that of the key at the same index of the first block. So it can be
an old one, even the key's own, as in the released generator.
"""

from typing import Literal

import torch
from pydantic import Field

from recollect.rng import Stream
from recollect.tasks.base import Batch
from recollect.tasks.mqar import MQAR


class Updating(MQAR):
    """Updating recall: some keys are bound again, and the last value counts."""

    kind: Literal["updating"] = "updating"
    updates: int = Field(default=4, ge=0)
    """Writes beyond each key's first; in the variant `zoology` at most one per key."""

    def _refusal(self) -> str | None:
        if refusal := super()._refusal():
            return refusal
        need = 4 * self.pairs + 2 * self.updates
        if need > self.length:
            return (
                f"pairs {self.pairs} and updates {self.updates} do not fit length {self.length}: "
                f"4 x pairs + 2 x updates = {need} must be at most length"
            )
        if self.variant == "zoology" and self.updates > self.pairs:
            return f"updates {self.updates} exceed pairs {self.pairs} in the variant zoology"
        if self.variant == "zoology" and self.roles == "shared":
            return "roles 'shared' in the variant zoology, which has only 'split'"
        return None

    def sample(self, stream: Stream) -> Batch:
        K, writes = self.pairs, self.pairs + self.updates
        each = torch.arange(K, device=stream.device).expand(stream.rows, -1)
        if self.variant == "clean":
            token, keys, values = self._draw_pairs(stream, writes)
            written = torch.cat([each, stream.integers(self.updates, 0, K)], dim=1).gather(1, stream.order(writes))
        else:
            token, keys, values = self._draw_pairs(stream, K)
            written = torch.cat([each, stream.order(K)[:, : self.updates]], dim=1)
            new = stream.integers(self.updates, self.vocab // 2, self.vocab - 1)
            new += new >= values[:, : self.updates]  # every value but the one at the same index of the first block
            values = torch.cat([values, new], dim=1)
        write = torch.arange(writes, device=stream.device).expand(stream.rows, -1)
        last = torch.zeros_like(each).scatter_reduce_(1, written, write, "amax")  # (rows, K)
        batch = self._row(stream, token, keys, values, written, last)
        times = torch.zeros_like(each).scatter_add_(1, written, torch.ones_like(written))
        batch.tags["writes"] = times.gather(1, batch.tags["key"])
        return batch
