"""What every specification is made of: frozen records, errors that name the nearest choice, and the registry."""

from typing import TYPE_CHECKING, Any

from recollect.spec.errors import SpecError, Stopped, UserError, nearest
from recollect.spec.identity import digest, finite

if TYPE_CHECKING:
    from recollect.spec.base import Spec, explain

__all__ = ["Spec", "SpecError", "Stopped", "UserError", "digest", "explain", "finite", "nearest"]


def __getattr__(name: str) -> Any:
    """The names that import pydantic, loaded when they are first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from recollect.spec import base

    return getattr(base, name)
