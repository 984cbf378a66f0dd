"""Optimisers, one file each."""

from typing import TYPE_CHECKING

from recollect.spec.registry import Registry

if TYPE_CHECKING:
    from recollect.train.optimisers.base import Optimiser

OPTIMISERS: "Registry[type[Optimiser]]" = Registry(
    "optimiser",
    group="recollect.optimisers",
    base="recollect.train.optimisers.base:Optimiser",
    built_in={
        "adamw": "recollect.train.optimisers.adamw:AdamW",
        "muon": "recollect.train.optimisers.muon:Muon",
        "lion": "recollect.train.optimisers.lion:Lion",
        "schedule_free": "recollect.train.optimisers.schedule_free:ScheduleFree",
        "sgd": "recollect.train.optimisers.sgd:SGD",
    },
)
