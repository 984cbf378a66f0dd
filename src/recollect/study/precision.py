"""The precision of a study that leaves it to the device."""

from collections.abc import Iterable

from recollect.store.store import Store
from recollect.study.spec import Study
from recollect.train.spec import RunSpec

AUTOMATIC = ("bfloat16", "float32")
"""What `auto` may become."""


def chosen_precision(study: Study, store: Store | None, has_bfloat16: bool) -> tuple[str, str]:
    """The precision of those runs of a study that leave it open, and why, where it is not the device's.

    It is bfloat16 where the device has it, else float32; but a study that has runs of one precision in the store continues in
    that one, because a sweep is only comparable within one precision.
    """
    suited = "bfloat16" if has_bfloat16 else "float32"
    before = store.precisions(study.name) if store else set()
    if len(before) != 1 or before == {suited} or not before <= set(AUTOMATIC):
        return suited, ""
    (precision,) = before
    return precision, f" (as the study's runs in the store; `precision: {suited}` in its `train` would train them anew)"


def named_precisions(runs: Iterable[RunSpec]) -> str:
    """The precisions of some runs in readable form."""
    return " and ".join(sorted({run.train.precision for run in runs}))
