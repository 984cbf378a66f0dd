"""Muon (Jordan et al. 2024): matrices move by their orthogonalised momentum, all other parameters by AdamW.

    m = momentum m + (1 - momentum) g        u = (1 - momentum) g + momentum m, or m without Nesterov's look ahead
    p = (1 - lr decay) p - lr 0.2 sqrt(max(rows, columns)) O(u)

O(u) is u with singular values near 1, by five steps of a Newton-Schulz iteration. The factor makes a step of a matrix as large
as one of AdamW (Liu et al. 2025; `match_rms_adamw` in torch.optim.Muon), so that both share one learning rate.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from pydantic import Field
from torch import Tensor

from recollect.spec import SpecError
from recollect.train.groups import matching
from recollect.train.optimisers.adamw import AdamW
from recollect.train.optimisers.base import Group, Parameters, State, zeros

A, B, C = 3.4445, -4.7750, 2.0315
"""The iteration's coefficients: X <- A X + (B X X^T + C (X X^T)^2) X."""


class Muon(AdamW):
    """Muon: orthogonalised momentum for matrices, AdamW with the fields it has for everything else."""

    momentum: float = Field(default=0.95, ge=0, lt=1)
    """Decay of the running mean of a matrix's gradient."""
    nesterov: bool = True
    """Whether the gradient counts once more in the direction of a step."""
    matrices: str = "layers.*.weight|second.*.weight|!*conv*|!*short*|!*norm*"
    """Patterns of the parameters that Muon moves, of those with two axes; `!` in front of a pattern takes parameters out."""
    iterations: int = Field(default=5, ge=1, le=20)
    """Steps of the Newton-Schulz iteration."""

    def check(self, params: Mapping[str, Tensor]) -> None:
        if not self.orthogonalised(params):
            raise SpecError(
                f"muon needs matrices, and no parameter with two axes matches {self.matrices!r}: {', '.join(params)}"
            )

    def orthogonalised(self, params: Mapping[str, Tensor], axes: int = 2) -> list[str]:
        return matching(self.matrices, [name for name, p in params.items() if p.dim() == axes])

    def start(self, params: Parameters) -> State:
        chosen = self.orthogonalised(params, axes=3)  # the members are another one
        rest = super().start({name: p for name, p in params.items() if name not in chosen})
        return {"momentum": zeros({name: params[name] for name in chosen}), **rest}

    def step(
        self, params: Parameters, grads: Parameters, state: State, groups: Sequence[Group], number: int | Tensor
    ) -> None:
        directions = {}
        for group in groups:
            chosen = [name for name in group.names if name in state["momentum"]]
            for name in chosen:
                g, average = grads[name], state["momentum"][name]
                momentum, clip = group.like(average, "momentum", "clip")
                g = g * clip if group.clips else g
                average.lerp_(g, (1 - momentum).expand_as(g))
                directions[name] = g.lerp(average, momentum.expand_as(g)) if self.nesterov else average
            rest = [name for name in group.names if name not in state["momentum"]]
            if rest:
                super().step(params, grads, state, [replace(group, names=rest)], number)
        directions = self._orthogonal(directions)
        for group in groups:
            for name in group.names:
                if name in directions:
                    p = params[name]
                    lr, weight_decay = group.like(p, "lr", "weight_decay")
                    size = 0.2 * math.sqrt(max(p.shape[1:]))
                    p.mul_(1 - lr * weight_decay).sub_(lr * size * directions[name])

    def _orthogonal(self, directions: Parameters) -> Parameters:
        """Each direction, orthogonalised; matrices of one shape, or of one shape transposed, in one batch of products."""
        shapes: dict[tuple[int, int], list[str]] = {}
        for name, u in directions.items():
            shapes.setdefault((min(u.shape[1:]), max(u.shape[1:])), []).append(name)
        results = {}
        for names in shapes.values():
            tall = [directions[name].shape[1] > directions[name].shape[2] for name in names]
            wide = [directions[name].mT if turn else directions[name] for name, turn in zip(names, tall, strict=True)]
            parts = orthogonalised(torch.cat(wide), self.iterations).to(wide[0].dtype).chunk(len(names))
            results |= {name: part.mT if turn else part for name, part, turn in zip(names, parts, tall, strict=True)}
        return results


def orthogonalised(x: Tensor, iterations: int) -> Tensor:
    """Wide matrices (batch, rows, columns) with their singular values brought near 1; on a GPU in bf16."""
    x = x.bfloat16() if x.is_cuda and x.dtype == torch.float32 else x
    x = x / x.flatten(1).norm(dim=1).clamp(min=1e-7)[:, None, None]
    for _ in range(iterations):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=B, alpha=C), x, beta=A)
    return x
