"""What the mixers of a model decide at each token of a row: step sizes, decays, gates."""

from typing import Any

import torch
from torch import Tensor, nn

from recollect.inspect.mixing import mixer_inputs
from recollect.spec import SpecError


@torch.no_grad()
def signals(model: nn.Module, tokens: Tensor) -> dict[str, dict[str, Tensor]]:
    """What `signals` of every mixer in a model returns for these tokens: by dotted name of the mixer, then by name of the signal;
    (rows, length, parts) each."""
    by_mixer: dict[str, dict[str, Tensor]] = {}
    for mixer_name, part, x in mixer_inputs(model, tokens, method="signals"):
        mixer: Any = part
        for name, value in mixer.signals(x).items():
            if value.dim() != 3 or value.shape[:2] != x.shape[:2]:
                raise SpecError(
                    f"{type(mixer).__name__}.signals: {name!r} is {tuple(value.shape)} for x {tuple(x.shape)}, and must be "
                    "(batch, length, parts)"
                )
            by_mixer.setdefault(mixer_name, {})[name] = value
    if not by_mixer:
        raise SpecError(
            "no signals: no mixer of this model has step sizes, decays or gates to show; a mixer of your own returns them by "
            "name from signals(x)"
        )
    return by_mixer
