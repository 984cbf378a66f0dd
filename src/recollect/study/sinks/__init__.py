"""Where else the curves of a study may go while it runs. One file per sink."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from recollect.spec.registry import Registry

if TYPE_CHECKING:
    from recollect.study.sinks.base import Sink

SINKS: "Registry[Callable[[str, str], Sink]]" = Registry(
    "sink",
    group="recollect.sinks",
    base="recollect.study.sinks.base:Sink",
    built_in={
        "tensorboard": "recollect.study.sinks.tensorboard:TensorBoard",
        "wandb": "recollect.study.sinks.wandb:WeightsAndBiases",
    },
)
