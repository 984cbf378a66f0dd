"""The initial weights of a model: one law for linear maps and embeddings, then what a mixer's own law asks for."""

import math
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from recollect.models.model import Model

SPREAD = 0.02
"""Standard deviation of embeddings and linear maps at the start. Sinusoidal positions are scaled by it too, so that they do not
drown the tokens: in Vaswani et al. embeddings have unit variance."""


def initialise(model: "Model") -> None:
    """Draw the weights from N(0, SPREAD^2), those of a Linear called `out`, the end of a residual branch, smaller; then call
    `initialise()` of every part that has one."""
    released = model.spec.residual == "released"
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and not (released and _is_transformer(model, name)):
            nn.init.normal_(module.weight, std=SPREAD)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
            if name.rpartition(".")[2] == "out":
                with torch.no_grad():
                    module.weight /= math.sqrt(2 * model.spec.layers)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=SPREAD)
    for module in model.modules():
        if callable(own := getattr(module, "initialise", None)):
            own()


def _is_transformer(model: "Model", name: str) -> bool:
    """Whether a submodule is in a hybrid's attention layer: the published code leaves those as PyTorch made them."""
    kinds = {layer.kind for layer in [*model.layers, *model.second]}
    if len(kinds) < 2 or not name.startswith(("layers.", "second.")):
        return False
    group, index = name.split(".")[:2]
    return getattr(model, group)[int(index)].kind == "attention"
