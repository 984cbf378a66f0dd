"""The specification that names a mixer with its options."""

import inspect
from collections.abc import Mapping
from functools import cache
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model, model_serializer
from torch import nn

from recollect.mixers import MIXERS
from recollect.spec import Spec, SpecError, nearest
from recollect.spec.base import refuse_booleans

CONTEXT = ("length", "layer", "layers", "positions", "base_width", "canon")
"""Keywords of a constructor that the model fills in."""
MOST = 2**20
"""The largest whole number that an option of a built-in mixer may be: all of them are sizes."""


class MixerSpec(Spec):
    """A mixer by name with its options: `attention`, or `{kind: attention, heads: 4}`."""

    kind: str
    """The mixer's name, or `module:Name` or `file.py:Name` of your own."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments of its constructor that differ from their defaults."""
    source: str = ""
    """For your own mixer: a hash of the file that defines it."""

    @model_serializer
    def _flat(self) -> dict[str, Any]:
        return {"kind": self.kind, **self.options, **({"source": self.source} if self.source else {})}

    def __hash__(self) -> int:
        return hash((self.kind, self.source, repr(sorted(self.options.items()))))

    @property
    def cls(self) -> type[nn.Module]:
        """The class that is named."""
        return MIXERS.find(self.kind)

    @property
    def takes(self) -> list[str]:
        """Which of the context keywords its constructor has."""
        return _context(self.cls)

    @property
    def wants_positions(self) -> bool:
        """Whether its class itself, not one that it derives from, wants learned positions."""
        return bool(vars(self.cls).get("wants_positions"))

    def build(self, width: int, **context: Any) -> nn.Module:
        """The module; context keywords that its constructor does not have are left out."""
        return self.cls(width, **self.options, **{name: context[name] for name in self.takes if name in context})


def _parse(data: Any) -> Any:
    if isinstance(data, MixerSpec):
        return data
    if isinstance(data, str | type):
        data = {"kind": data}
    if not isinstance(data, Mapping) or not isinstance(data.get("kind"), str | type):
        raise SpecError(f"a mixer is a name, a class, or a mapping with a `kind`, not {data!r}")
    kind = MIXERS.name(data["kind"])
    options = {name: value for name, value in data.items() if name not in ("kind", "source")}
    return MixerSpec(kind=kind, options=_checked(kind, options), source=MIXERS.source(kind))


if TYPE_CHECKING:

    class AnyMixer:
        """A field that is a `MixerSpec`, and is given as one, as a name, as a class, or as a mapping with a `kind`."""

        def __get__(self, instance: object, owner: Any = None) -> MixerSpec: ...
        def __set__(self, instance: object, value: MixerSpec | str | type[nn.Module] | Mapping[str, Any]) -> None: ...
else:
    AnyMixer = Annotated[MixerSpec, BeforeValidator(_parse)]


def option_names(kind: str) -> list[str]:
    """The options of a mixer."""
    return [*_signature(MIXERS.find(kind))[0].model_fields]


def _checked(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that differ from their defaults, checked against the constructor's signature."""
    cls = MIXERS.find(kind)
    if not _takes_width(cls):
        raise SpecError(f"{kind}: its constructor takes no width: begin it as `def __init__(self, width`")
    fields, open_ended = _signature(cls)
    for name in options:
        if name not in fields.model_fields and not open_ended:
            raise SpecError(f"{kind}: unknown option {name!r}: {nearest(str(name), fields.model_fields)}")
    refuse_booleans(fields, options)
    for name in options if kind in MIXERS.built_in else ():
        default, value = fields.model_fields[name].default, options[name]
        if type(default) is int and isinstance(value, int) and not (least := min(default, 1)) <= value <= MOST:
            raise SpecError(f"{kind}: option {name} = {value!r}: choose from {least} to {MOST:,}")
    try:
        values = fields(**options)
    except ValidationError as error:
        missing = ["".join(map(str, one["loc"])) for one in error.errors() if one["type"] == "missing"]
        if missing:
            given = " ".join(f"{name}=.." for name in missing)
            raise SpecError(f"{kind}: its constructor needs {' and '.join(missing)}; give {given}") from None
        first = error.errors()[0]
        option = ".".join(map(str, first["loc"]))
        raise SpecError(f"{kind}: option {option} = {first['input']!r}: {first['msg']}") from None
    return values.model_dump(exclude_defaults=True)


def _takes_width(cls: type[nn.Module]) -> bool:
    """Whether its constructor takes a number of channels in the first place after self."""
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
    by_name = (Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD)
    return cls.__init__ is not nn.Module.__init__ and bool(parameters) and parameters[0].kind not in by_name


@cache
def _context(cls: type[nn.Module]) -> list[str]:
    """The context keywords that a constructor has."""
    parameters = inspect.signature(cls.__init__).parameters
    return [name for name in CONTEXT if name in parameters]


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
    others = "allow" if open_ended else "forbid"
    config = ConfigDict(extra=others, arbitrary_types_allowed=True, protected_namespaces=())
    return create_model(f"{cls.__name__}Options", __config__=config, **fields), open_ended
