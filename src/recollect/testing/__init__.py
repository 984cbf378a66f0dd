"""Rules that a mixer, a task or an optimiser must satisfy, as tests that a user's own class inherits.

    from recollect.testing import MixerConformance

    class TestMine(MixerConformance):
        def make(self):
            return MyMixer(self.width)

`MIXER_CHECKS`, `TASK_CHECKS` and `OPTIMISER_CHECKS` are the same checks one by one, without pytest.
"""

from recollect.testing.check import Check
from recollect.testing.mixers import MIXER_CHECKS, MixerConformance
from recollect.testing.optimisers import OPTIMISER_CHECKS, OptimiserConformance
from recollect.testing.tasks import TASK_CHECKS, TaskConformance

__all__ = [
    "MIXER_CHECKS", "OPTIMISER_CHECKS", "TASK_CHECKS", "Check", "MixerConformance", "OptimiserConformance", "TaskConformance",
]  # fmt: skip
