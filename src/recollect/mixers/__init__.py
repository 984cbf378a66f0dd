"""Sequence mixers, one file each."""

from typing import TYPE_CHECKING

from recollect.spec.registry import Registry

if TYPE_CHECKING:
    from torch.nn import Module


class Mixers(Registry["type[Module]"]):
    """The registry of mixers, which also finds layers of flash-linear-attention as `fla:LayerName`."""

    def find(self, name: str) -> "type[Module]":
        if name.startswith("fla:"):
            from recollect.mixers.fla import fla_mixer  # imports torch

            return fla_mixer(name)
        return super().find(name)

    def source(self, name: str) -> str:
        if name.startswith("fla:"):
            from recollect.ops.external import VERSION

            return f"fla {VERSION}"  # the version of the package is part of a run
        return super().source(name)


_CLASSES = {
    "attention": "Attention", "linear_attention": "LinearAttention", "based": "Based", "base_conv": "BaseConv", "h3": "H3",
    "hyena": "Hyena", "rwkv": "RWKV", "rwkv6": "RWKV6", "rwkv7": "RWKV7", "mamba": "Mamba", "s6": "S6", "mamba2": "Mamba2",
    "mamba3": "Mamba3", "lru": "LRU", "deltanet": "DeltaNet", "gated_deltanet": "GatedDeltaNet", "deltaproduct": "DeltaProduct",
    "kda": "KDA", "gated_deltanet2": "GatedDeltaNet2", "gla": "GLA", "retnet": "RetNet", "lstm": "LSTM",
}  # fmt: skip
"""The class of each mixer, by its name, which is that of its module too."""
_ELSEWHERE = {"s6": "mamba"}
"""The modules of mixers that are in the file of another."""

MIXERS = Mixers(
    "mixer",
    group="recollect.mixers",
    base="torch.nn:Module",
    built_in={name: f"{__name__}.{_ELSEWHERE.get(name, name)}:{cls}" for name, cls in _CLASSES.items()},
)
