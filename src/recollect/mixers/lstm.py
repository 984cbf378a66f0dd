"""The LSTM (Hochreiter & Schmidhuber 1997; gates as in torch.nn.LSTM), the recurrent baseline of Jelassi et al. 2024.

    i, f, g, o = sigmoid, sigmoid, tanh, sigmoid of (W x_t + U h_{t-1} + b)
    c_t = f c_{t-1} + i g,    h_t = o tanh(c_t),    y_t = W_o h_t

Glossary: i, f, o = input, forget and output gates; g = candidate; c = cell; h = hidden state; U = recurrent weight.
W x_t + b is one matrix product for all times. The loop over h is an op of its own with its own backward, since
torch.nn.LSTM cannot train in a cohort.
"""

import torch
from torch import Tensor, nn

from recollect.mixers.base import Mixer, State, linear_flops
from recollect.ops.activations import sigmoid
from recollect.ops.fold import folded
from recollect.spec import SpecError


class LSTM(Mixer):
    """One LSTM layer, read out by a linear map.

    hidden: size of the hidden state and of the cell; 0: as wide as the model.

    Initial values: torch.nn.LSTM's (with one bias per gate in place of two); the output map by the model's law.
    """

    def __init__(self, width: int, *, hidden: int = 0):
        super().__init__()
        if hidden < 0:
            raise SpecError(f"lstm: hidden {hidden} is negative; give a size of at least 1, or 0 for the model's width")
        self.hidden = hidden or width
        self.inputs = nn.Linear(width, 4 * self.hidden)
        self.recurrent = nn.Parameter(torch.empty(4 * self.hidden, self.hidden))
        self.out = nn.Linear(self.hidden, width)
        self.initialise()

    def initialise(self) -> None:
        """All that enters the gates is uniform in +- 1 / sqrt(hidden), as in torch.nn.LSTM."""
        for parameter in (self.inputs.weight, self.inputs.bias, self.recurrent):
            nn.init.uniform_(parameter, -(self.hidden**-0.5), self.hidden**-0.5)

    def forward(self, x: Tensor) -> Tensor:  # (batch, length, width)
        return self.out(lstm(self.inputs(x), self.recurrent))

    def initial_state(self, batch: int) -> State:
        zeros = self.recurrent.new_zeros(batch, self.hidden)
        return {"h": zeros, "c": zeros}

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:  # x (batch, width)
        h, c = lstm_step(self.inputs(x), self.recurrent, state["h"], state["c"])
        return self.out(h), {"h": h, "c": c}

    def state_size(self, length: int) -> int:
        return 2 * self.hidden

    def flops(self, length: int) -> int:
        recurrence = 2 * length * (self.recurrent.numel() + 2 * self.hidden)  # and the update of the cell
        return linear_flops(length, self.inputs, self.out) + recurrence


def lstm_step(x: Tensor, recurrent: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """One token: x (batch, 4 hidden) is its part of the gates; the next h and c, (batch, hidden) each."""
    i, f, g, o = (x + h @ recurrent.T).chunk(4, dim=-1)
    c = sigmoid(f) * c + sigmoid(i) * g.tanh()
    return sigmoid(o) * c.tanh(), c


def lstm_definition(x: Tensor, recurrent: Tensor) -> Tensor:
    """One token after another."""
    h = c = x.new_zeros(x.shape[0], recurrent.shape[1])
    out = []
    for x_t in x.unbind(1):
        h, c = lstm_step(x_t, recurrent, h, c)
        out.append(h)
    return torch.stack(out, dim=1)


def lstm(x: Tensor, recurrent: Tensor) -> Tensor:
    """The same with its own backward: x (batch, length, 4 hidden), recurrent (4 hidden, hidden) -> h at all times."""
    return _lstm(x, recurrent[None])[0]


def _forward(x: Tensor, recurrent: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """x (groups * batch, length, 4 hidden), recurrent (groups, 4 hidden, hidden) -> h, c and the gates at all times."""
    kind = torch.promote_types(x.dtype, torch.float32)
    x, weight = x.to(kind).unflatten(0, (recurrent.shape[0], -1)), recurrent.to(kind).transpose(1, 2)
    # sigmoid(a) = (1 + tanh(a / 2)) / 2, so one tanh serves all gates; and its rounding is the same for every element
    slope = x.new_tensor([0.5, 0.5, 1.0, 0.5]).repeat_interleave(weight.shape[1])
    h = c = x.new_zeros(x.shape[0], x.shape[1], weight.shape[1])
    hs, cs, gates = [], [], []
    for x_t in x.unbind(2):
        gate = torch.baddbmm(x_t, h, weight).mul_(slope).tanh_().mul_(slope).add_(1 - slope)
        i, f, g, o = gate.chunk(4, dim=-1)
        c = f * c + i * g
        h = o * c.tanh()
        for kept, value in ((hs, h), (cs, c), (gates, gate)):
            kept.append(value)
    h, c, gate = (torch.stack(kept, dim=2).flatten(0, 1) for kept in (hs, cs, gates))
    return h.to(recurrent.dtype), c, gate


def _backward(grad: Tensor, x: Tensor, recurrent: Tensor, h: Tensor, c: Tensor, gate: Tensor) -> tuple[Tensor, Tensor]:
    groups, weight = recurrent.shape[0], recurrent.to(c.dtype)
    grad, h, c, gate = (t.to(weight.dtype).unflatten(0, (groups, -1)) for t in (grad, h, c, gate))
    i, f, g, o = gate.chunk(4, dim=-1)
    slopes = torch.cat([i * (1 - i), f * (1 - f), 1 - g * g, o * (1 - o)], dim=-1)
    squashed = c.tanh()
    through = o * (1 - squashed * squashed)  # from h to c
    before_h, before_c = (torch.cat([torch.zeros_like(t[:, :, :1]), t[:, :, :-1]], dim=2) for t in (h, c))
    into = torch.cat([g, before_c, i], dim=-1)  # from c to i, f, g
    grad_h, grad_c = torch.zeros_like(grad[:, :, 0]), torch.zeros_like(grad[:, :, 0])
    grad_x = torch.empty_like(gate)
    for t in reversed(range(grad.shape[2])):
        grad_h = grad_h + grad[:, :, t]
        grad_c = grad_c + grad_h * through[:, :, t]
        from_c = grad_c.repeat(1, 1, 3) * into[:, :, t]
        grad_gate = torch.cat([from_c, grad_h * squashed[:, :, t]], dim=-1) * slopes[:, :, t]
        grad_h, grad_c = grad_gate @ weight, grad_c * f[:, :, t]
        grad_x[:, :, t] = grad_gate
    grad_recurrent = grad_x.flatten(1, 2).transpose(1, 2) @ before_h.flatten(1, 2)
    return grad_x.flatten(0, 1).to(x.dtype), grad_recurrent.to(recurrent.dtype)


def _fake(x: Tensor, recurrent: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    kind = torch.promote_types(x.dtype, torch.float32)
    h = recurrent.new_empty(*x.shape[:2], recurrent.shape[2])
    return h, torch.empty_like(h, dtype=kind), torch.empty_like(x, dtype=kind)


def _fake_backward(
    grad: Tensor, x: Tensor, recurrent: Tensor, h: Tensor, c: Tensor, gate: Tensor
) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), torch.empty_like(recurrent)


_lstm = folded("lstm", _forward, _backward, _fake, _fake_backward)
