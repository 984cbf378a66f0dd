"""Where cohorts are trained: on this machine or on a cluster. Results are the same on each. One file per executor."""

from typing import TYPE_CHECKING

from recollect.spec.registry import Registry

if TYPE_CHECKING:
    from recollect.study.executors.base import Executor

EXECUTORS: "Registry[type[Executor]]" = Registry(
    "executor",
    group="recollect.executors",
    base="recollect.study.executors.base:Executor",
    built_in={
        "local": "recollect.study.executors.local:Local",
        "ray": "recollect.study.executors.ray:Ray",
        "slurm": "recollect.study.executors.slurm:Slurm",
    },
)
