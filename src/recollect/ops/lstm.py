"""The recurrence of the LSTM (Hochreiter & Schmidhuber 1997), with its own backward: torch.nn.LSTM cannot train in a cohort.

    i, f, g, o = sigmoid, sigmoid, tanh, sigmoid of (x_t + U h_{t-1})
    c_t = f c_{t-1} + i g,    h_t = o tanh(c_t)

Shapes: x (batch, length, 4 hidden), the tokens' part of the gates; U (4 hidden, hidden); h, c (batch, hidden).
"""

import torch
from torch import Tensor

from recollect.ops.activations import sigmoid
from recollect.ops.op import op
from recollect.ops.precision import wide


def lstm_step(x: Tensor, recurrent: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """One token: x (batch, 4 hidden) is its part of the gates; the next h and c, (batch, hidden) each."""
    i, f, g, o = (x + h @ recurrent.T).chunk(4, dim=-1)
    c = sigmoid(f) * c + sigmoid(i) * g.tanh()
    return sigmoid(o) * c.tanh(), c


def lstm(x: Tensor, recurrent: Tensor) -> Tensor:
    """All tokens, with its own backward: x (batch, length, 4 hidden), recurrent (4 hidden, hidden) -> h at all times."""
    return _lstm(x, recurrent[None])[0]


def _forward(x: Tensor, recurrent: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """x (groups * batch, length, 4 hidden), recurrent (groups, 4 hidden, hidden) -> h, c and the gates at all times."""
    kind = wide(x.dtype)
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
        for values, value in ((hs, h), (cs, c), (gates, gate)):
            values.append(value)
    h, c, gate = (torch.stack(values, dim=2).flatten(0, 1) for values in (hs, cs, gates))
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
    kind = wide(x.dtype)
    h = recurrent.new_empty(*x.shape[:2], recurrent.shape[2])
    return h, torch.empty_like(h, dtype=kind), torch.empty_like(x, dtype=kind)


_lstm = op("lstm", _forward, _backward, _fake)
