"""Optimisers, one file each."""

from typing import TYPE_CHECKING

from recollect.spec.registry import Registry

if TYPE_CHECKING:
    from recollect.train.optimisers.base import Optimiser

OPTIMISERS: "Registry[type[Optimiser]]" = Registry(
    "optimiser",
    group="recollect.optimisers",
    base="recollect.train.optimisers.base:Optimiser",
    built_in={"adamw": "recollect.train.optimisers.adamw:AdamW"},
)
