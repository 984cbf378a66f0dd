"""Which mixers there are, and the specification that names one with its options."""

import importlib
import inspect
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model, model_serializer
from torch import nn

from recollect.spec import Spec, SpecError, nearest, registry

BUILT_IN = {
    "attention": "attention:Attention",
    "linear_attention": "linear_attention:LinearAttention",
    "based": "based:Based",
    "base_conv": "base_conv:BaseConv",
    "h3": "h3:H3",
    "hyena": "hyena:Hyena",
    "rwkv": "rwkv:RWKV",
    "rwkv6": "rwkv6:RWKV6",
    "rwkv7": "rwkv7:RWKV7",
    "mamba": "mamba:Mamba",
    "s6": "mamba:S6",
    "mamba2": "mamba2:Mamba2",
    "deltanet": "deltanet:DeltaNet",
    "gated_deltanet": "gated_deltanet:GatedDeltaNet",
    "gla": "gla:GLA",
    "retnet": "retnet:RetNet",
    "lstm": "lstm:LSTM",
}
CONTEXT = ("length", "layer", "layers", "positions")
"""Keywords of a constructor that the model fills in."""


def mixer_class(kind: str) -> type[nn.Module]:
    """The class behind a name, `module:Name`, `file.py:Name`, or an installed package's entry point."""
    if kind in BUILT_IN:
        module, _, name = BUILT_IN[kind].partition(":")
        return getattr(importlib.import_module(f"recollect.mixers.{module}"), name)
    if registry.is_reference(kind):
        found = registry.load(kind)
    elif kind in (offered := registry.from_entry_points("recollect.mixers")):
        found = offered[kind].load()
    else:
        raise SpecError(f"unknown mixer {kind!r}: {nearest(kind, [*BUILT_IN, *offered])}; or module:Name of your own")
    if not (inspect.isclass(found) and issubclass(found, nn.Module)):
        raise SpecError(f"{kind} is {found!r}, not a class derived from torch.nn.Module")
    return found


class MixerSpec(Spec):
    """A mixer by name with its options: `attention`, or `{kind: attention, heads: 4}`."""

    kind: str
    """The mixer's name, or `module:Name` or `file.py:Name` of your own."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments of its constructor that differ from their defaults."""
    source: str = ""
    """For a mixer of your own: a hash of the file that defines it."""

    @model_serializer
    def _flat(self) -> dict[str, Any]:
        return {"kind": self.kind, **self.options, **({"source": self.source} if self.source else {})}

    def __hash__(self) -> int:
        return hash((self.kind, self.source, repr(sorted(self.options.items()))))

    @property
    def cls(self) -> type[nn.Module]:
        """The class that is named."""
        return mixer_class(self.kind)

    @property
    def takes(self) -> list[str]:
        """Which of the context keywords its constructor has."""
        return [name for name in CONTEXT if name in inspect.signature(self.cls.__init__).parameters]

    def build(self, width: int, **context: Any) -> nn.Module:
        """The module, given what the model knows: the context keywords its constructor does not have are left out."""
        return self.cls(width, **self.options, **{name: context[name] for name in self.takes})


def _parse(data: Any) -> Any:
    if isinstance(data, MixerSpec):
        return data
    if isinstance(data, str):
        data = {"kind": data}
    if not isinstance(data, Mapping) or not isinstance(data.get("kind"), str):
        raise SpecError(f"a mixer is a name or a mapping with a `kind`, not {data!r}")
    kind = data["kind"]
    cls = mixer_class(kind)
    options = {name: value for name, value in data.items() if name not in ("kind", "source")}
    own = registry.source_digest(cls) if kind not in BUILT_IN else ""
    return MixerSpec(kind=kind, options=_checked(kind, cls, options), source=own)


AnyMixer = Annotated[MixerSpec, BeforeValidator(_parse)]


def _checked(kind: str, cls: type[nn.Module], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that differ from their defaults, checked against the constructor's signature."""
    fields, open_ended = _signature(cls)
    for name in options:
        if name not in fields.model_fields and not open_ended:
            raise SpecError(f"{kind}: unknown option {name!r}: {nearest(str(name), fields.model_fields)}")
    try:
        values = fields(**options)
    except ValidationError as error:
        first = error.errors()[0]
        raise SpecError(
            f"{kind}: option {'.'.join(map(str, first['loc']))} = {first['input']!r}: {first['msg']}"
        ) from None
    return values.model_dump(exclude_defaults=True)


@cache
def _signature(cls: type[nn.Module]) -> tuple[type[BaseModel], bool]:
    """A constructor's keyword options as a pydantic model, and whether it takes any others."""
    fields: dict[str, Any] = {}
    open_ended = False
    parameters = list(inspect.signature(cls.__init__).parameters.values())[2:]  # after self and width
    for p in parameters:
        if p.kind is p.VAR_KEYWORD:
            open_ended = True
        elif p.kind is not p.VAR_POSITIONAL and p.name not in CONTEXT:
            kind = Any if p.annotation is p.empty or isinstance(p.annotation, str) else p.annotation
            fields[p.name] = (kind, ... if p.default is p.empty else p.default)
    config = ConfigDict(
        extra="allow" if open_ended else "forbid", arbitrary_types_allowed=True, protected_namespaces=()
    )
    return create_model(f"{cls.__name__}Options", __config__=config, **fields), open_ended
