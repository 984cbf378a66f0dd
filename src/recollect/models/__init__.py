"""Models: their specification, their parts, their diagram."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recollect.models.spec import BlockSpec, ModelSpec, SecondStream

__all__ = ["BlockSpec", "ModelSpec", "SecondStream"]


def __getattr__(name: str) -> Any:
    """The specifications, loaded when they are first used, since they import torch."""
    if name in __all__:
        from recollect.models import spec

        return getattr(spec, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
