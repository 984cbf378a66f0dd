"""Layers of the installed flash-linear-attention package (fla) as mixers: `fla:KimiDeltaAttention`, `fla:MesaNet`, ..

A layer is built with the model's width as `hidden_size`, the layer's number as `layer_idx`, and the options given. Its kernels
need a CUDA GPU, and take one member of a cohort at a time: members are trained one after another.
"""

import inspect
import warnings
from functools import cache
from importlib import import_module
from typing import Any, cast

from torch import Tensor, nn

from recollect.ops.external import VERSION, refuse_without_gpu
from recollect.ops.fused import refuse_members
from recollect.spec import SpecError, nearest

PREFIX = "fla:"
WIDTHS = ("hidden_size", "d_model")
"""The names of the width in layers' constructors."""
CONTEXT = (*WIDTHS, "layer_idx", "num_hidden_layers", "device", "dtype")
"""Arguments that are not options, because the model decides them."""
SMALL = {"num_heads": 2, "num_key_value_heads": 2, "head_dim": None}
"""Our defaults for options whose own defaults are for large models."""
OURS = {
    "KimiDeltaAttention": "kda", "GatedDeltaNet": "gated_deltanet", "GatedDeltaNet2": "gated_deltanet2", "DeltaNet": "deltanet",
    "GatedDeltaProduct": "deltaproduct", "GatedLinearAttention": "gla", "MultiScaleRetention": "retnet", "Mamba": "mamba",
    "Mamba2": "mamba2", "Mamba3": "mamba3", "RWKV6Attention": "rwkv6", "RWKV7Attention": "rwkv7", "Attention": "attention",
    "LinearAttention": "linear_attention", "BasedLinearAttention": "based",
    "ForgettingAttention": "{kind: attention, forget: true}",
}  # fmt: skip
"""Our mixers that compute the same as a layer, on any device."""


class FlaLayer(nn.Module):
    """A layer of fla with the shape of a mixer.

    Options are those of the layer's constructor. Where it has them and they are not given, `num_heads` and `num_key_value_heads`
    are 2, and `head_dim` is the (expanded) width divided by `num_heads`: fla's own defaults are for thousands of channels.
    Initial values: linear maps by the model's default; everything else as in fla.
    """

    layer_name = ""

    def __init__(self, width: int, *, layer: int = 0, layers: int = 1, **options: Any):
        super().__init__()
        cls = layer_class(self.layer_name)
        taken = inspect.signature(cls.__init__).parameters
        known = {"hidden_size": width, "d_model": width, "layer_idx": layer, "num_hidden_layers": layers}
        given = {name: value for name, value in known.items() if name in taken}
        chosen = {name: value for name, value in SMALL.items() if name in taken} | options
        if "num_heads" in taken and "head_dim" in taken and chosen["head_dim"] is None:
            expand = chosen.get("expand", taken["expand"].default) if "expand" in taken else 1
            chosen["head_dim"] = int(expand * width) // chosen["num_heads"]
        elif "head_dim" in chosen and chosen["head_dim"] is None:
            del chosen["head_dim"]
        try:
            self.layer = cls(**given, **chosen)
        except Exception as error:
            what = f"{PREFIX}{self.layer_name} cannot be built at width {width} with {chosen}"
            raise SpecError(f"{what}: {type(error).__name__}: {error}") from error

    def forward(self, x: Tensor) -> Tensor:  # (batch, length, width)
        ours = f"; the mixer {OURS[self.layer_name]} needs none" if self.layer_name in OURS else ""
        refuse_members(x, f"{PREFIX}{self.layer_name}")
        refuse_without_gpu(x, f"{PREFIX}{self.layer_name}", ours)
        y = self.layer(x)
        return y[0] if isinstance(y, tuple) else y


@cache
def fla_mixer(kind: str) -> type[FlaLayer]:
    """The mixer class of `fla:LayerName`, whose constructor takes the layer's options."""
    name = kind.removeprefix(PREFIX)
    own = {"layer_name": name, "__doc__": FlaLayer.__doc__, "__init__": _constructor(layer_class(name))}
    return type(name, (FlaLayer,), own)


def layer_class(name: str) -> type[nn.Module]:
    """The class of that name in `fla.layers`; an unknown one is refused with the nearest."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # without a GPU the package warns when it is imported
            layers = import_module("fla.layers")
    except ImportError as error:
        raise SpecError(
            f"{PREFIX}{name} is a layer of flash-linear-attention, which cannot be imported ({error}); install it with "
            "pip install 'recollect[fla]'"
        ) from error
    cls: Any = getattr(layers, name, None)
    if name not in layers.__all__ or not inspect.isclass(cls):
        raise SpecError(f"flash-linear-attention {VERSION} has no layer {name!r}: {nearest(name, layers.__all__)}")
    if not set(WIDTHS) & set(inspect.signature(cls.__init__).parameters):
        raise SpecError(f"{PREFIX}{name} does not take a width, so it cannot be used as a mixer")
    return cast("type[nn.Module]", cls)


def _constructor(cls: type[nn.Module]) -> Any:
    """A constructor whose signature lists the layer's options, so that unknown ones are refused: fla itself ignores some."""

    def __init__(self: FlaLayer, width: int, *, layer: int = 0, layers: int = 1, **options: Any) -> None:
        FlaLayer.__init__(self, width, layer=layer, layers=layers, **options)

    keyword = inspect.Parameter.KEYWORD_ONLY
    own = inspect.signature(FlaLayer.__init__).parameters
    options = [
        inspect.Parameter(p.name, keyword, default=SMALL.get(p.name, p.default))
        for p in list(inspect.signature(cls.__init__).parameters.values())[1:]
        if p.kind is not p.VAR_KEYWORD and p.name not in CONTEXT
    ]
    signature = inspect.Signature([own["self"], own["width"], own["layer"], own["layers"], *options])
    __init__.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
    return __init__
