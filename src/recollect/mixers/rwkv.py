"""RWKV-4 time mixing (Peng et al. 2023, "RWKV: Reinventing RNNs for the Transformer Era").

    r_t, k_t, v_t = W (mu x_t + (1 - mu) x_{t-1}),  each with its own W and mu
    y_t = W_o (sigmoid(r_t) wkv_t)                  wkv: see ops/wkv.py

Glossary: r, k, v = receptance, key, value; mu = time_mix; w = e^{time_decay}; u = time_first.
The paper's channel mixing corresponds to the model's MLP, so it is not part of this mixer.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recollect.mixers.base import Init, Mixer, State, map_flops
from recollect.ops.activations import sigmoid
from recollect.ops.wkv import wkv, wkv_start, wkv_step
from recollect.spec import SpecError


class RWKV(Mixer):
    """RWKV-4's time mixing; `layer` of `layers` decides how decays and mixes start.

    init: how the four linear maps start: normal, by the model's default, N(0, 0.02) and the last smaller; or pytorch, by
        nn.Linear's, which they keep in Zoology's code, whose initialiser skips scripted modules.

    Initial values: decays, bonuses and mixes by the paper's formulas for `layers` layers (Zoology's code takes 12 layers
    whatever the model has). The paper's own code starts keys, receptances and the output at zero; there is no option for that.
    """

    def __init__(self, width: int, *, layer: int, layers: int, init: Init = "normal"):
        super().__init__()
        self.init = init
        late, early = depth("rwkv", layer, layers)
        channel = torch.arange(width) / width
        self.time_mix_k = nn.Parameter(channel**early)
        self.time_mix_v = nn.Parameter(channel**early + 0.3 * late)
        self.time_mix_r = nn.Parameter(channel ** (0.5 * early))
        self.time_decay = nn.Parameter(-5 + 8 * ramp(width) ** (0.7 + 1.3 * late))
        self.time_first = nn.Parameter(math.log(0.3) + 0.5 * zigzag(width))
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.receptance = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def initialise(self) -> None:
        """Draw the linear maps again by PyTorch's default, where `init` says so."""
        if self.init == "pytorch":
            for linear in (self.key, self.value, self.receptance, self.out):
                linear.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:  # (batch, length, width)
        r, k, v = self._project(x, shifted(x))
        return self.out(r * self._average(k, v))

    def mix(self, x: Tensor, values: Tensor | None = None) -> Tensor:  # (batch, length, width), the values too
        _, k, v = self._project(x, shifted(x))
        return self._average(k, v if values is None else values)

    def _project(self, x: Tensor, last: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Receptance in (0, 1), key and value from each token and the one before it."""
        k = self.key(x * self.time_mix_k + last * (1 - self.time_mix_k))
        v = self.value(x * self.time_mix_v + last * (1 - self.time_mix_v))
        r = self.receptance(x * self.time_mix_r + last * (1 - self.time_mix_r))
        return sigmoid(r), k, v

    def _average(self, k: Tensor, v: Tensor) -> Tensor:
        return wkv(self.time_decay.exp(), self.time_first, k, v)

    def initial_state(self, batch: int) -> State:
        last = self.key.weight.new_zeros(batch, self.key.in_features)
        return {"last": last} | wkv_start(last)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:  # x (batch, width)
        r, k, v = self._project(x, state["last"])
        y, sums = wkv_step(self.time_decay.exp(), self.time_first, k, v, state)
        return self.out(r * y), {"last": x} | sums

    def flops(self, length: int) -> int:
        scan = 2 * 4 * length * self.key.in_features  # numerator and denominator, read and updated
        return map_flops(length, self) + scan


def shifted(x: Tensor) -> Tensor:
    """Each token's predecessor, zeros before the first: (batch, length, width)."""
    return F.pad(x[:, :-1], (0, 0, 1, 0))


def depth(name: str, layer: int, layers: int) -> tuple[float, float]:
    """How late a layer is (0 the first, 1 the last) and how early (1 the first, 1 / layers the last)."""
    if not 0 <= layer < layers:
        raise SpecError(f"{name}: layer {layer} is not one of {layers} layers; choose from 0 to {layers - 1}")
    return layer / max(layers - 1, 1), 1 - layer / layers


def ramp(width: int) -> Tensor:
    """0 for the first channel to 1 for the last."""
    return torch.arange(width) / max(width - 1, 1)


def zigzag(width: int) -> Tensor:
    """0, 1, -1, 0, 1, ... over the channels, so that neighbours start with different values."""
    return ((torch.arange(width) + 1) % 3 - 1).float()
