"""The base of every specification: frozen, checked where it is built, and refusing keys it does not know."""

import math
from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator, model_validator

from recollect.spec.errors import SpecError, nearest


class Spec(BaseModel):
    """A frozen, typed record. Unknown keys are refused with the nearest known one; fields carry their documentation."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:
        if isinstance(data, Mapping):
            for key in data:
                if key not in cls.model_fields:
                    raise SpecError(f"unknown key {key!r}: {nearest(str(key), cls.model_fields)}")
        return data

    @field_validator("*", mode="after")
    @classmethod
    def _round(cls, value: Any) -> Any:
        """Round to twelve digits, because two libraries' ranges differ in the last bit and must not give two runs."""
        return float(f"{value:.12g}") if isinstance(value, float) else value

    def changed(self, **fields: Any) -> Self:
        """The same specification with other values in some fields, checked again."""
        own = {
            name: getattr(self, name) for name in type(self).model_fields
        }  # `dict(self)` would add cached properties
        return type(self).model_validate({**own, **fields})

    def canonical(self) -> dict[str, Any]:
        """The non-default fields as plain data, from which the identity is computed."""
        return self.model_dump(mode="json", exclude_defaults=True)


def finite(value: Any) -> Any:
    """The value, or None where it is a number that is not finite: JSON has neither NaN nor infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def explain(error: ValidationError) -> str:
    """A validation error in one line: for each fault its field, its value, and what is allowed."""
    lines = []
    for fault in error.errors():
        where = ".".join(str(part) for part in fault["loc"])
        cause = fault.get("ctx", {}).get("error")
        if isinstance(cause, SpecError):
            text = str(cause)
        else:
            text = f"{fault['msg'][0].lower()}{fault['msg'][1:]} (got {fault['input']!r})"
        lines.append(f"{where}: {text}" if where else text)
    return "; ".join(lines)
