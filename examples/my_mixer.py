"""A mixer of your own: linear attention that looks a key up by the token *before* each value.

    recollect probe examples/my_mixer.py:MyMixer

Keys and queries have length 1, and the key of a token is made of the token before it: S_t = S_{t-1} + k(x_{t-1}) v(x_t)ᵀ
and y_t = S_tᵀ q(x_t). So one layer can answer "what followed this the last time?". Only `forward` is needed; the recurrent
form below it is checked against it.
"""

import torch.nn.functional as F
from torch import Tensor, nn


class MyMixer(nn.Module):
    """Linear attention with shifted keys."""

    def __init__(self, width: int, *, heads: int = 2):
        super().__init__()
        self.heads, self.width = heads, width
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, -2)

    def forward(self, x: Tensor) -> Tensor:  # (batch, length, width)
        before = F.pad(x, (0, 0, 1, -1))  # the token before each
        q, k, v = (self.split(t) for t in (self.q(x), self.k(before), self.v(x)))  # (batch, heads, length, dim)
        y = (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT).tril() @ v
        return self.out(y.transpose(1, 2).flatten(2))

    def initial_state(self, batch: int) -> dict[str, Tensor]:
        zeros = self.out.weight.new_zeros
        return {"before": zeros(batch, self.width), "S": zeros(batch, self.heads, *(self.width // self.heads,) * 2)}

    def step(self, x: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:  # x (batch, width)
        q, k, v = (t.unflatten(-1, (self.heads, -1)) for t in (self.q(x), self.k(state["before"]), self.v(x)))
        S = state["S"] + F.normalize(k, dim=-1)[..., None] * v[..., None, :]  # (batch, heads, dim, dim)
        y = F.normalize(q, dim=-1)[..., None, :] @ S
        return self.out(y.flatten(1)), {"before": x, "S": S}

    def state_size(self, length: int) -> int:
        return self.width + self.width**2 // self.heads
