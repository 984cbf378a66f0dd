"""Searches: which runs of a grid are worth training, given those that have ended. One file per strategy."""

from typing import TYPE_CHECKING

from recollect.spec.registry import Registry

if TYPE_CHECKING:
    from recollect.study.search.base import Search

SEARCHES: "Registry[type[Search]]" = Registry(
    "search",
    group="recollect.searches",
    base="recollect.study.search.base:Search",
    built_in={"window": "recollect.study.search.window:WindowSearch"},
)
