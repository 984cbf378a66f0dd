"""The initial weights of a model: one distribution for linear maps and embeddings, then each mixer's own initial values.

Under muP (Yang et al. 2022; rates in train/parametrisation.py) the distribution for a model of the base width is scaled: a
linear map from m times as many inputs starts smaller by sqrt(m), and the parameters that scale the logits (the head, where it is
not tied) by m. Distributions that mixers define themselves already depend on the number of inputs, and stay as they are.
"""

import math
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import nn

if TYPE_CHECKING:
    from recollect.models.model import Model


def initialise(model: "Model") -> None:
    """Draw the weights from N(0, spread^2), those of a Linear called `out`, the end of a residual branch, smaller; then call
    `initialise()` of every part that has one."""
    spec = model.spec
    scaled = spec.parametrisation == "mup" and spec.width != spec.base_width
    grown, last = (width_ratios(model), readout(model)) if scaled else ({}, [])
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and not (spec.residual == "released" and _is_transformer(model, name)):
            matrix, ratio, _ = grown.get(f"{name}.weight", UNCHANGED)
            hidden = matrix and f"{name}.weight" not in last
            nn.init.normal_(module.weight, std=spec.spread / math.sqrt(ratio) if hidden else spec.spread)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
            if name.rpartition(".")[2] == "out":
                with torch.no_grad():
                    module.weight /= math.sqrt(2 * spec.layers)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=spec.spread)
    for module in model.modules():
        if callable(own := getattr(module, "initialise", None)):
            own()
    with torch.no_grad():
        for name in last:
            model.get_parameter(name).mul_(spec.base_width / spec.width)


def readout(model: "Model") -> list[str]:
    """The parameters that scale the logits: the head's or, where the head is the embedding, those of the norm before it."""
    if model.head is not None:
        return ["head.weight"]
    return [f"norm.{name}" for name, _ in model.norm.named_parameters()]


class Growth(NamedTuple):
    """How much larger a parameter is than at the base width."""

    matrix: bool
    """Whether it is a matrix from a width to another size."""
    ratio: float
    """How many times as many inputs it has or, where it is no matrix, entries."""
    outputs: float = 1.0
    """How many times as many outputs a matrix has."""


UNCHANGED = Growth(False, 1.0)


def width_ratios(model: "Model") -> dict[str, Growth]:
    """How much each parameter that is larger or smaller than at the base width has grown."""
    from recollect.models.model import outline  # it initialises the model that it makes

    spec = model.spec
    base = outline(spec.changed(width=spec.base_width), model.vocabulary, model.length)
    tables = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, nn.Embedding)}
    linear = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    ratios = {}
    for (name, p), (_, q) in zip(model.named_parameters(), base.named_parameters(), strict=True):
        grown = [axis for axis in range(p.dim()) if p.shape[axis] != q.shape[axis]]
        if name in linear and 1 in grown:
            ratios[name] = Growth(True, p.shape[1] / q.shape[1], p.shape[0] / q.shape[0])
        elif name not in linear | tables and len(grown) > 1:  # x @ W has its inputs on the first axis
            ratios[name] = Growth(True, p.shape[0] / q.shape[0], p.shape[1] / q.shape[1])
        elif grown:
            ratios[name] = Growth(False, p.shape[grown[0]] / q.shape[grown[0]])
    return ratios


def _is_transformer(model: "Model", name: str) -> bool:
    """Whether a submodule is in a hybrid's attention layer: the published code leaves those as PyTorch made them."""
    kinds = {layer.kind for layer in [*model.layers, *model.second]}
    if len(kinds) < 2 or not name.startswith(("layers.", "second.")):
        return False
    group, index = name.split(".")[:2]
    return getattr(model, group)[int(index)].kind == "attention"
