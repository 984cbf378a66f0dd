"""What a mixer or a task must keep to, as tests that anyone's own inherit.

    from recollect.testing import MixerConformance

    class TestMine(MixerConformance):
        def make(self):
            return MyMixer(self.width)

`MIXER_CHECKS` and `TASK_CHECKS` are the same checks one by one, without pytest.
"""

from recollect.testing.check import Check
from recollect.testing.mixers import MIXER_CHECKS, MixerConformance
from recollect.testing.tasks import TASK_CHECKS, TaskConformance

__all__ = ["MIXER_CHECKS", "TASK_CHECKS", "Check", "MixerConformance", "TaskConformance"]
