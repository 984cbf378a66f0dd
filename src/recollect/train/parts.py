"""The optimiser and the schedule that a training specification names, whose fields are given beside its own."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from pydantic import ValidationError

from recollect.spec import Spec, SpecError, nearest
from recollect.spec.registry import Registry
from recollect.train.optimisers import OPTIMISERS
from recollect.train.schedules import SCHEDULES

ROLES: dict[str, Registry] = {"optimiser": OPTIMISERS, "schedule": SCHEDULES}
"""The registry of each role."""
Kinds = dict[str, tuple[str, type[Spec]]]
"""By role, the name in the registry and the class of an optimiser or a schedule."""


class Part(NamedTuple):
    """An optimiser or a schedule."""

    spec: Any
    """The object itself."""
    source: str
    """A hash of its code if it is a user's own, else empty."""


def find_kinds(data: Mapping[str, Any], default: Mapping[str, Any]) -> tuple[Kinds, dict[str, Any]]:
    """The classes that `data` names, by role, and `data` with names in place of objects and their fields beside them."""
    flat = {name: value for name, value in data.items() if name.removesuffix("_source") not in ROLES or name in ROLES}
    kinds: Kinds = {}
    for role, registry in ROLES.items():
        name, cls, brought = _chosen(registry, flat.get(role, default[role]))
        kinds[role] = name, cls
        if twice := sorted(brought.keys() & flat.keys()):
            raise SpecError(f"{', '.join(twice)}: given in the {role} and beside it; give it once")
        flat |= {**brought, role: name}
    return kinds, flat


def _chosen(registry: Registry, given: Any) -> tuple[str, type[Spec], dict[str, Any]]:
    """The name and the class that a name, a class or an object means, and the fields of an object."""
    if isinstance(given, str):
        name, brought = given, {}
    else:
        cls = given if isinstance(given, type) else type(given)
        if not issubclass(cls, Spec):
            raise SpecError(f"{registry.what}: expected a name, a class or an object of one, not {given!r}")
        name = registry.name(cls)
        brought = {} if given is cls else {field: getattr(given, field) for field in cls.model_fields}
    cls = registry.find(name)
    if missing := sorted(cls.__abstractmethods__):
        raise SpecError(f"{registry.what} {name!r} must define {' and '.join(missing)}")
    return name, cls, brought


def check_names(kinds: Kinds, flat: Iterable[str], own: Iterable[str], declared: Iterable[str]) -> None:
    """Refuse fields that no part has, and those that two have. `own` are the fields of training itself, `declared` those that
    some optimisers have."""
    known = dict.fromkeys(own, "train")
    for role, (name, cls) in kinds.items():
        for field in cls.model_fields:
            if field in known:
                raise SpecError(
                    f"{role} {name!r} has a field {field!r}, which {known[field]} has too; give it another name"
                )
            known[field] = role
    for field in flat:
        if field not in known and field in declared:
            name, cls = kinds["optimiser"]
            raise SpecError(f"optimiser {name!r} has no field {field!r}: {nearest(field, cls.model_fields)}")
        if field not in known:
            beside = " and ".join(f"{role} {name!r}" for role, (name, _) in kinds.items())
            raise SpecError(f"unknown key {field!r}: {nearest(str(field), [*known, 'protocol'])} (with {beside})")


def build(kinds: Kinds, flat: Mapping[str, Any], faults: list[Any]) -> dict[str, Part]:
    """The parts, by role, each of its own fields; what is wrong with those fields goes to `faults`."""
    parts = {}
    for role, (name, cls) in kinds.items():
        with collected(faults):
            own = {field: flat[field] for field in cls.model_fields if field in flat}
            spec = super(Spec, cls).model_validate(own)  # Spec's own would put all its faults into one text
            parts[role] = Part(spec, ROLES[role].source(name))
    return parts


@contextmanager
def collected(faults: list[Any]) -> Iterator[None]:
    """Puts what a validation finds wrong into a list, so that all of it is reported at once."""
    try:
        yield
    except ValidationError as error:
        faults += error.errors(include_url=False)
