"""How well, how fast and how reliably does a sequence model learn to recall from its context?

from recollect import Study
Study(task="mqar", model={"mixer": ["attention", "mamba"]}, lr=[1e-3, 1e-2], train={"steps": 400}).run().windows()
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recollect.evaluation import evaluate
    from recollect.mixers.base import Mixer
    from recollect.models.spec import ModelSpec
    from recollect.papers.reproduce import reproduce
    from recollect.probing.probe import probe
    from recollect.reporting import report
    from recollect.store.export import load
    from recollect.study.outcome import Outcome
    from recollect.study.run import run
    from recollect.study.spec import Study
    from recollect.tasks.base import Batch, Task
    from recollect.train.optimisers.base import Optimiser
    from recollect.train.spec import RunSpec, TrainSpec

# A matrix product must give a member of a cohort the same bits wherever in memory it lies; Intel's library promises that
# only when asked before its first use.
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")

__version__ = "0.1.0"
_PLACES = {
    "Batch": "recollect.tasks.base",
    "Mixer": "recollect.mixers.base",
    "ModelSpec": "recollect.models.spec",
    "Optimiser": "recollect.train.optimisers.base",
    "Outcome": "recollect.study.outcome",
    "RunSpec": "recollect.train.spec",
    "Study": "recollect.study.spec",
    "Task": "recollect.tasks.base",
    "TrainSpec": "recollect.train.spec",
    "evaluate": "recollect.evaluation",
    "load": "recollect.store.export",
    "probe": "recollect.probing.probe",
    "report": "recollect.reporting",
    "reproduce": "recollect.papers.reproduce",
    "run": "recollect.study.run",
}
__all__ = [
    "Batch", "Mixer", "ModelSpec", "Optimiser", "Outcome", "RunSpec", "Study", "Task", "TrainSpec", "evaluate", "load", "probe",
    "report", "reproduce", "run",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """The public names, loaded when they are first used, since most of them bring torch along."""
    if name not in _PLACES:
        raise AttributeError(f"module 'recollect' has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
