"""Every built-in task, with its options, and what it is tested on, keeps every rule of `recollect.testing`."""

import pytest

from recollect.tasks import Task
from recollect.testing import Check, TaskConformance
from recollect.testing.tasks import answerable

KEYED = {"mqar", "ar", "induction", "noisy", "updating"}
"""Those whose answer comes right after an earlier copy of the token it is read at."""

SOURCELESS = {"position", "words", "parity", "modular", "mad_memorization"}
"""Those whose answers do not occur in the row: they are computed, or learned."""


class TestBuiltIn(TaskConformance):
    """All rules for all examples, as they are trained and as they are tested."""

    @pytest.fixture(autouse=True)
    def example(self, task: Task) -> None:
        self.task, self.keyed = task, task.kind in KEYED

    def hold(self, check: Check) -> None:
        more = {"keyed": self.keyed} if check.function is answerable else {}
        for task in dict.fromkeys([self.task, self.task.for_test()]):
            note = check.function(task, self.rows, **more)
            assert note is None or (task.kind in SOURCELESS and note == "names no sources")
