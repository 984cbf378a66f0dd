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


MIXERS = Mixers(
    "mixer",
    group="recollect.mixers",
    base="torch.nn:Module",
    built_in={
        "attention": "recollect.mixers.attention:Attention",
        "linear_attention": "recollect.mixers.linear_attention:LinearAttention",
        "based": "recollect.mixers.based:Based",
        "base_conv": "recollect.mixers.base_conv:BaseConv",
        "h3": "recollect.mixers.h3:H3",
        "hyena": "recollect.mixers.hyena:Hyena",
        "rwkv": "recollect.mixers.rwkv:RWKV",
        "rwkv6": "recollect.mixers.rwkv6:RWKV6",
        "rwkv7": "recollect.mixers.rwkv7:RWKV7",
        "mamba": "recollect.mixers.mamba:Mamba",
        "s6": "recollect.mixers.mamba:S6",
        "mamba2": "recollect.mixers.mamba2:Mamba2",
        "mamba3": "recollect.mixers.mamba3:Mamba3",
        "lru": "recollect.mixers.lru:LRU",
        "deltanet": "recollect.mixers.deltanet:DeltaNet",
        "gated_deltanet": "recollect.mixers.gated_deltanet:GatedDeltaNet",
        "deltaproduct": "recollect.mixers.deltaproduct:DeltaProduct",
        "kda": "recollect.mixers.kda:KDA",
        "gated_deltanet2": "recollect.mixers.gated_deltanet2:GatedDeltaNet2",
        "gla": "recollect.mixers.gla:GLA",
        "retnet": "recollect.mixers.retnet:RetNet",
        "lstm": "recollect.mixers.lstm:LSTM",
    },
)
