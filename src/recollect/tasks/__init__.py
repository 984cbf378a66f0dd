"""What is asked: one file a task, a frozen specification that samples a Batch."""

from recollect.tasks.ar import AR
from recollect.tasks.base import Batch, Task
from recollect.tasks.compositional import Compositional
from recollect.tasks.copy import Copy
from recollect.tasks.duplicates import Duplicates
from recollect.tasks.fuzzy import Fuzzy
from recollect.tasks.induction import Induction
from recollect.tasks.mixture import Mixture
from recollect.tasks.mqar import MQAR
from recollect.tasks.ngram import NGram
from recollect.tasks.noisy import Noisy
from recollect.tasks.position import Position
from recollect.tasks.registry import TASKS, AnyTask, as_task, task_class
from recollect.tasks.selective_copy import SelectiveCopy
from recollect.tasks.updating import Updating

TASKS.update(
    {
        task.model_fields["kind"].default: task
        for task in (
            *(MQAR, AR, Copy, NGram, Duplicates, Position, Mixture),
            *(Induction, SelectiveCopy, Noisy, Fuzzy, Compositional, Updating),
        )
    }
)

__all__ = [
    "AR",
    "MQAR",
    "TASKS",
    "AnyTask",
    "Batch",
    "Compositional",
    "Copy",
    "Duplicates",
    "Fuzzy",
    "Induction",
    "Mixture",
    "NGram",
    "Noisy",
    "Position",
    "SelectiveCopy",
    "Task",
    "Updating",
    "as_task",
    "task_class",
]
