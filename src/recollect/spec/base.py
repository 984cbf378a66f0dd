"""The base of every specification: frozen, checked where it is built, and refusing keys it does not know."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator, model_validator

from recollect.spec.errors import SpecError, nearest


class Spec(BaseModel):
    """A frozen, typed record. Unknown keys are refused with the nearest known one; fields carry their documentation."""

    also: ClassVar[tuple[str, ...]] = ()
    """Keys that a study file may give besides the fields, which they stand for."""
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    if not TYPE_CHECKING:  # a type checker takes the arguments from the fields

        def __init__(self, /, **fields: Any):
            with plain_errors():
                super().__init__(**fields)

        __init__.__pydantic_base_init__ = True  # pydantic checks a specification inside another without calling this

    @classmethod
    def model_validate(cls, obj: Any, **how: Any) -> Self:
        """A specification of plain data. What is wrong with it raises SpecError, as it does where the class is called."""
        with plain_errors():
            return super().model_validate(obj, **how)

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **how: Any) -> Self:
        """The same of JSON."""
        with plain_errors():
            return super().model_validate_json(json_data, **how)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:
        if isinstance(data, Mapping):
            known = cls.model_fields
            for key in data:
                if key not in known:
                    where = cls._belongs(str(key), data) or nearest(str(key), [*known, *cls.also])
                    raise SpecError(f"unknown key {key!r}: {where}")
            refuse_booleans(cls, data)
        return data

    @classmethod
    def _belongs(cls, key: str, data: Mapping[str, Any]) -> str:
        """Where a key that is no field here belongs, if that is known."""
        return ""

    @field_validator("*", mode="after")
    @classmethod
    def _round(cls, value: Any) -> Any:
        """Round to twelve digits, because two libraries' ranges differ in the last bit and must not give two runs."""
        return float(f"{value:.12g}") if isinstance(value, float) else value

    def changed(self, **fields: Any) -> Self:
        """The same specification with other values in some fields, checked again."""
        # Not `dict(self)`, which has cached properties too.
        own = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self).model_validate({**own, **fields})

    def canonical(self) -> dict[str, Any]:
        """The non-default fields as plain data, from which the identity is computed."""
        return self.model_dump(mode="json", exclude_defaults=True)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Raise what a validation finds wrong as a SpecError of one line."""
    try:
        yield
    except ValidationError as error:
        raise SpecError(explain(error)) from None


def refuse_booleans(cls: type[BaseModel], data: Mapping[str, Any]) -> None:
    """Refuse true and false where a field is a number: pydantic would take them for 1 and 0."""
    for name, value in data.items():
        if isinstance(value, bool | list | tuple) and name in _numbers(cls) and _has_boolean(value):
            raise SpecError(f"{name}: expected a number, not {str(value).lower()}")


@cache
def _numbers(cls: type[BaseModel]) -> frozenset[str]:
    """The fields that hold numbers and no booleans."""
    kinds = {name: _kinds(about.annotation) for name, about in cls.model_fields.items()}
    return frozenset(name for name, types in kinds.items() if types & {int, float} and bool not in types)


def _kinds(annotation: Any) -> set[Any]:
    """The types that an annotation is made of."""
    return {annotation}.union(*map(_kinds, get_args(annotation))) if get_origin(annotation) is not Literal else set()


def _has_boolean(value: Any) -> bool:
    return any(map(_has_boolean, value)) if isinstance(value, list | tuple) else isinstance(value, bool)


def explain(error: ValidationError) -> str:
    """A validation error in one line: for each fault its field, its value, and what is allowed."""
    lines = []
    for fault in error.errors():
        where = ".".join(str(part) for part in fault["loc"])
        cause = fault.get("ctx", {}).get("error")
        if isinstance(cause, SpecError):
            text = str(cause)
        else:
            got = "" if fault["type"] == "missing" else f" (got {fault['input']!r})"
            text = f"{fault['msg'][0].lower()}{fault['msg'][1:]}{got}"
        lines.append(f"{where}: {text}" if where else text)
    return "; ".join(lines)
