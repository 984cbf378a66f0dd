"""The LSTM (Hochreiter & Schmidhuber 1997; gates as in torch.nn.LSTM), the recurrent baseline of Jelassi et al. 2024.

    i, f, g, o = sigmoid, sigmoid, tanh, sigmoid of (W x_t + U h_{t-1} + b)
    c_t = f c_{t-1} + i g,    h_t = o tanh(c_t),    y_t = W_o h_t

Glossary: i, f, o = input, forget and output gates; g = candidate; c = cell; h = hidden state; U = recurrent weight.
W x_t + b is one matrix product for all times; the loop over h is in ops/lstm.py.
"""

import torch
from torch import Tensor, nn

from recollect.mixers.base import Mixer, State, map_flops
from recollect.ops.lstm import lstm, lstm_step


class LSTM(Mixer):
    """One LSTM layer, read out by a linear map.

    hidden: size of the hidden state and of the cell; 0: as wide as the model.

    Initial values: torch.nn.LSTM's (with one bias per gate in place of two); the output map by the model's default.
    """

    def __init__(self, width: int, *, hidden: int = 0):
        super().__init__()
        self.hidden = hidden or width
        self.inputs = nn.Linear(width, 4 * self.hidden)
        self.recurrent = nn.Parameter(torch.empty(4 * self.hidden, self.hidden))
        self.out = nn.Linear(self.hidden, width)
        self.initialise()

    def initialise(self) -> None:
        """All weights of the gates are uniform in +- 1 / sqrt(hidden), as in torch.nn.LSTM."""
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

    def flops(self, length: int) -> int:
        recurrence = 2 * length * (self.recurrent.numel() + 2 * self.hidden)  # and the update of the cell
        return map_flops(length, self.inputs, self.out) + recurrence
