"""What every specification is made of: frozen records, errors that name the nearest choice, and the registry."""

from recollect.spec.base import Spec, SpecError, UserError, digest, explain, finite, nearest

__all__ = ["Spec", "SpecError", "UserError", "digest", "explain", "finite", "nearest"]
