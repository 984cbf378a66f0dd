"""The sources: one file per paper. A study names a protocol (`train: {protocol: okpekpe2025}`) or a model (`model: {preset:
retrievit-mamba2-16}`, `model: {preset: okpekpe-mamba-128x2}`); any field that the study gives beside it takes precedence."""

import re
from collections.abc import Callable, Iterator

from recollect.mixers import MIXERS
from recollect.sources.base import AnyTask, Fields, Source
from recollect.spec import SpecError, nearest
from recollect.spec.registry import Registry
from recollect.train.optimisers import OPTIMISERS

_BUILT_IN = (
    "okpekpe2025", "retrievit2026", "zoology2024", "jelassi2024", "statetracking2025", "mad2024", "kimi2025",
)  # fmt: skip
SOURCES: Registry[Source] = Registry(
    "source", group="recollect.sources", built_in={name: f"{__name__}.{name}:SOURCE" for name in _BUILT_IN}
)
PROTOCOLS: Registry[Callable[[AnyTask], Fields]] = Registry(
    "protocol", group="recollect.protocols", built_in={name: f"{__name__}.{name}:protocol" for name in _BUILT_IN}
)
"""Functions from a task to the fields of `train`."""


def preset_names() -> Iterator[str]:
    """The names of all presets; a pattern for those that are made from a mixer and a size."""
    for source in map(SOURCES.find, SOURCES):
        yield from source.presets
        if source.sized:
            yield f"{source.sized}-MIXER-WIDTHxLAYERS"


def is_preset(name: str) -> bool:
    """Whether a name means a preset: its first word is that of one."""
    return name.partition("-")[0] in {known.partition("-")[0] for known in preset_names()}


def preset(name: str) -> Fields:
    """The fields of a named model."""
    for source in map(SOURCES.find, SOURCES):
        if name in source.presets:
            return source.presets[name]
        match = re.fullmatch(rf"{source.sized}-([a-z0-9_]+)-(\d+)x(\d+)", name)
        if source.sized and match and match[1] in MIXERS:
            return {"mixer": match[1], "width": int(match[2]), "layers": int(match[3])}
    raise SpecError(f"unknown preset {name!r}: {nearest(name, preset_names())}")


def with_preset(model: Fields) -> Fields:
    """`model` with the fields of the preset it names filled in."""
    if "preset" not in model:
        return model
    return {**preset(str(model["preset"])), **{name: value for name, value in model.items() if name != "preset"}}


def with_protocol(train: Fields, task: AnyTask) -> Fields:
    """`train` with the fields of the protocol it names filled in."""
    train = dict(train)
    if (name := train.pop("protocol", None)) is None:
        return train
    fields = PROTOCOLS.find(str(name))(task)
    if "steps" in train or "epochs" in train:  # either one gives the length of training
        fields = {key: value for key, value in fields.items() if key not in ("steps", "epochs")}
    if "optimiser" in train:  # the protocol's numbers are AdamW's: another optimiser takes those it has
        theirs = OPTIMISERS.find(str(train["optimiser"])).model_fields
        adamw = OPTIMISERS.find("adamw").model_fields
        fields = {key: value for key, value in fields.items() if key not in adamw or key in theirs}
    return fields | train
