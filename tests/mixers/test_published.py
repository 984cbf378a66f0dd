"""Convolutional mixers beside Zoology's: the same weights give what its modules gave.

The expected numbers are what HazyResearch/zoology's H3, Hyena and BaseConv give for the last of 17 tokens, in float64, with the
weights and the input that `wave` makes, which are the same on every machine. (H3's output map takes its columns in another
order there: the heads' first dims, then their second ones.)
"""

import math

import pytest
import torch
from torch import Tensor

from recollect.mixers.base import Mixer
from recollect.mixers.base_conv import BaseConv
from recollect.mixers.h3 import H3
from recollect.mixers.hyena import Hyena


def wave(shape: torch.Size | tuple[int, ...], rate: float, scale: float) -> Tensor:
    """Numbers that look drawn, but are not."""
    i = torch.arange(1, math.prod(shape) + 1, dtype=torch.float64)
    return scale * torch.sin(0.37 * rate * i * i + i).reshape(shape)


def with_known_weights(mixer: Mixer) -> Mixer:
    """Every parameter is a wave; those that decide time scales are near where they start."""
    mixer = mixer.double()
    for number, (name, parameter) in enumerate(sorted(mixer.named_parameters())):
        centre = {"diagonal.log_dt": -3.5, "diagonal.log_decay": -0.7, "filters.frequency": 1.0}.get(name, 0.0)
        scale = 40.0 if name == "diagonal.frequency" else 0.3
        parameter.data = centre + wave(parameter.shape, 1 + 0.1 * number, scale)
    return mixer


CASES = {
    "h3": (
        lambda: H3(6, length=48),
        [0.3156527838, -0.2808751847, 0.2944007597, 0.0918670024, 0.0109593208, 0.2340689637],
    ),
    "h3, zoh": (
        lambda: H3(6, length=48, discretise="zoh"),
        [0.320101717, -0.2823662125, 0.2986779452, 0.0956894702, 0.0116875326, 0.23165056],
    ),
    "hyena, features trained": (
        lambda: Hyena(6, length=48, filter_width=8, train_features=True),
        [0.3209834618, -0.3206163093, 0.0244155422, 0.1244339748, -0.1819564284, -0.014937128],
    ),
    "hyena": (
        lambda: Hyena(6, length=48, filter_width=8),
        [0.2942173221, -0.2988114555, 0.1216831561, 0.2479520963, 0.0950691834, -0.2902829695],
    ),
    "base_conv": (
        lambda: BaseConv(6, kernel=3),
        [1.0503889238, 0.0948112382, -0.8957112168, 0.6660818255, -0.5691150645, 0.5534727641],
    ),
    "base_conv, implicit": (
        lambda: BaseConv(6, implicit=True, length=48),
        [1.5796423494, 0.1045586073, -1.0556332626, 1.3281600891, -0.617765614, 0.4648633678],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_outputs_are_the_published_modules(case):
    build, expected = CASES[case]
    x = wave((1, 17, 6), 0.7, 1.0)
    torch.testing.assert_close(
        with_known_weights(build())(x)[0, -1], torch.tensor(expected, dtype=torch.float64), rtol=1e-8, atol=1e-8
    )
