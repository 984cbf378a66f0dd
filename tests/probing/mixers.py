"""Mixers for the tests of `recollect probe`: a sound one, and one fault each."""

import torch
from torch import Tensor, nn


class Sound(nn.Module):
    """A leaky running sum, h_t = a h_{t-1} + W x_t."""

    def __init__(self, width: int, *, decay: float = 0.5):
        super().__init__()
        self.into = nn.Linear(width, width)
        self.decay = nn.Parameter(torch.full((width,), decay))

    def forward(self, x: Tensor) -> Tensor:
        h, out = torch.zeros_like(x[:, 0]), []
        for x_t in self.into(x).unbind(1):
            h = self.decay.tanh() * h + x_t
            out.append(h)
        return torch.stack(out, dim=1)

    def initial_state(self, batch: int) -> dict[str, Tensor]:
        return {"h": self.decay.new_zeros(batch, len(self.decay))}

    def step(self, x: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        h = self.decay.tanh() * state["h"] + self.into(x)
        return h, {"h": h}

    def state_size(self, length: int) -> int:
        return len(self.decay)


class LooksAhead(Sound):
    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return torch.cat([y[:, :5], y[:, 5:6] + x[:, 7:8], y[:, 6:]], dim=1) if x.shape[1] > 7 else y


class NaNGradient(Sound):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + (0 * self.decay).abs().sqrt()  # the root has no slope at 0


class NaNOutput(Sound):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) / (0 * x)


class Random(Sound):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + torch.randn_like(x)


class MixesBatch(Sound):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 0.01 * x.mean(dim=0) * (torch.arange(x.shape[1]) == 4)[:, None]


class Remembers(Sound):
    """Keeps what it saw; not by much, so that it takes one to look for it."""

    last = 0.0

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x) + self.last
        self.last = 1e-3 * x[0, 0].detach()
        return y


class WrongStep(Sound):
    def step(self, x: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        h = state["h"] + self.into(x)  # forgets to forget
        return h, {"h": h}


class WrongStateSize(Sound):
    def state_size(self, length: int) -> int:
        return length * len(self.decay)


class Unused(Sound):
    def __init__(self, width: int):
        super().__init__(width)
        self.spare = nn.Parameter(torch.ones(3))


class RoundsAhead(Sound):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 1e-14 * x.sum(dim=1, keepdim=True)


class Branches(nn.Module):
    """Python asks for numbers, which vmap cannot give. No step, no state: a plain module."""

    def __init__(self, width: int):
        super().__init__()
        self.into = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.into(x).cumsum(dim=1)
        return y if self.into.weight.sum().item() < 1e9 else x


class Shorter(Sound):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)[:, :-1]


class Raises(Sound):
    def forward(self, x: Tensor) -> Tensor:
        raise KeyError("no such table")


class NeedsEven(Sound):
    def forward(self, x):
        assert x.shape[1] % 2 == 0
        return super().forward(x)


class SinglePrecision(Sound):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) @ torch.eye(x.shape[-1])


class NeedsTwo(Sound):
    def __init__(self, width: int, *, hidden: int, ratio: float):
        super().__init__(width)


class NoWidth(Sound):
    def __init__(self, *, width: int = 8):
        super().__init__(width)


class NoConstructor(nn.Module):
    pass


class WritesInPlace(Sound):
    def forward(self, x):
        return super().forward(x).exp().add_(1)


class NeedsHeads(Sound):
    def __init__(self, width: int, *, heads: int, scale: float = 1.0):
        super().__init__(width)
        if width % heads:
            raise ValueError(f"{heads} heads do not divide {width}")


class Table:
    """Not a module."""
